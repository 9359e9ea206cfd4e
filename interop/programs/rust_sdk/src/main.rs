//! A program that uses the `codex-app-server-sdk` crate with a server that somebody else has started.
//!
//! It never lets the crate start a server: to end one, the crate runs `kill -TERM -PGID`, which some `kill`
//! programs take for every process of the user.

use std::{
    env,
    error::Error,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use codex_app_server_sdk::{
    ClientOptions, CodexClient, WsConfig,
    api::{
        ApprovalMode, Codex, DynamicToolSpec, SandboxMode, ThreadEvent, ThreadItem, ThreadOptions,
        TurnOptions,
    },
};
use serde_json::json;

const ANSWER: &str = "One two three four five, said the scripted model.";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let thread = turns().await?;
    again(thread).await?;
    approvals().await?;
    interrupted().await
}

async fn client() -> Outcome<CodexClient> {
    let config = WsConfig::new(env::var("ADDRESS")?, Default::default(), ClientOptions::default());
    Ok(CodexClient::connect_ws(config).await?)
}

/// Tools of the client need the opt-in.
fn codex(client: CodexClient) -> Outcome<Codex> {
    let params = json!({ "clientInfo": { "name": "rust_sdk", "title": "Rust SDK", "version": "0.0.0" },
        "capabilities": { "experimentalApi": true } });
    Ok(Codex::with_initialize_params(client, serde_json::from_value(params)?))
}

fn options(approval: ApprovalMode) -> Outcome<ThreadOptions> {
    Ok(ThreadOptions::builder()
        .working_directory(env::var("WORK")?)
        .sandbox_mode(SandboxMode::WorkspaceWrite)
        .approval_policy(approval)
        .dynamic_tools(vec![DynamicToolSpec::new(
            "lookup",
            "Looks something up",
            json!({
                "type": "object", "properties": { "key": { "type": "string" } }, "required": ["key"],
            }),
        )])
        .build())
}

/// Turns of all kinds on one thread; its id.
async fn turns() -> Outcome<String> {
    let client = client().await?;
    client
        .set_dynamic_tool_call_handler(|call| async move {
            assert_eq!(call.extra.get("tool"), Some(&json!("lookup")));
            let response =
                json!({ "contentItems": [{ "type": "inputText", "text": "blue" }], "success": true });
            Ok(serde_json::from_value(response).expect("the crate's own form"))
        })
        .await;
    let codex = codex(client)?;
    let mut thread = codex.start_thread(options(ApprovalMode::Never)?);
    let turn = thread.run("stream please", TurnOptions::default()).await?;
    assert_eq!(turn.final_response, ANSWER);
    assert!(turn.items.iter().any(|item| matches!(item, ThreadItem::Reasoning(_))));
    assert!(turn.usage.is_some_and(|usage| usage.input_tokens > 0));

    let mut streamed = thread.run_streamed("run a command", TurnOptions::default()).await?;
    let mut output = None;
    while let Some(event) = streamed.next_event().await {
        match event? {
            ThreadEvent::ItemCompleted { item: ThreadItem::CommandExecution(command) } => {
                output = Some((command.exit_code, command.aggregated_output));
            }
            ThreadEvent::TurnCompleted { .. } => break,
            ThreadEvent::TurnFailed { error } => panic!("{}", error.message),
            _ => {}
        }
    }
    assert_eq!(output, Some((Some(0), "from-the-shell\n".to_owned())));
    drop(streamed);

    let turn = thread.run("patch the greeting", TurnOptions::default()).await?;
    assert!(turn.items.iter().any(|item| matches!(item, ThreadItem::FileChange(_))));
    assert_eq!(fs::read_to_string(PathBuf::from(env::var("WORK")?).join("greeting.txt"))?, "Hello, world!\n");

    let schema = json!({ "type": "object", "properties": { "colour": { "enum": ["green"] } },
        "required": ["colour"], "additionalProperties": false });
    let turn = thread.run("which colour", TurnOptions::builder().output_schema(schema).build()).await?;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&turn.final_response)?,
        json!({ "colour": "green" })
    );

    assert_eq!(thread.ask("use the tool", TurnOptions::default()).await?, "The tool said: blue");
    let failed = thread.run("fail", TurnOptions::default()).await.expect_err("the model refuses").to_string();
    assert!(failed.contains("the model refuses"), "{failed}");
    Ok(thread.id().expect("it has run").to_owned())
}

/// Another connection finds the thread.
async fn again(thread: String) -> Outcome {
    let codex = codex(client().await?)?;
    let mut thread = codex.resume_thread_by_id(thread, options(ApprovalMode::Never)?);
    assert_eq!(thread.ask("still there", TurnOptions::default()).await?, "You said: still there");
    thread.set_name("a good name").await?;
    let read = thread.read(Some(true)).await?;
    let read = serde_json::to_value(&read)?;
    assert_eq!(read.pointer("/thread/name"), Some(&json!("a good name")), "{read}");
    Ok(())
}

async fn approvals() -> Outcome {
    let client = client().await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    client
        .set_command_execution_request_approval_handler(move |_| {
            let decision = if count.fetch_add(1, Ordering::SeqCst) == 0 { "decline" } else { "accept" };
            async move {
                Ok(serde_json::from_value(json!({ "decision": decision })).expect("the crate's own form"))
            }
        })
        .await;
    let codex = codex(client)?;
    let stamp = PathBuf::from(env::var("ROOT")?).join("stamp.txt");
    for is_stamped in [false, true] {
        let mut thread = codex.start_thread(options(ApprovalMode::OnRequest)?);
        thread.ask("touch outside", TurnOptions::default()).await?;
        assert_eq!(stamp.exists(), is_stamped);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    Ok(())
}

/// The crate has no word for an interrupted turn; the server's own is asked for.
async fn interrupted() -> Outcome {
    let codex = codex(client().await?)?;
    let mut thread = codex.start_thread(options(ApprovalMode::Never)?);
    let mut streamed = thread.run_streamed("wait for it", TurnOptions::default()).await?;
    while let Some(event) = streamed.next_event().await {
        if let ThreadEvent::ItemStarted { item: ThreadItem::CommandExecution(_) } = event? {
            break;
        }
    }
    let id = thread.id().expect("it has run").to_owned();
    let params = json!({ "threadId": id, "includeTurns": true });
    let read = codex.send_raw_request("thread/read", params.clone(), None).await?;
    let turn = read.pointer("/thread/turns/0/id").and_then(|id| id.as_str()).expect("a turn").to_owned();
    thread.interrupt(turn).await?;
    while let Some(event) = streamed.next_event().await {
        if matches!(event?, ThreadEvent::TurnCompleted { .. } | ThreadEvent::TurnFailed { .. }) {
            break;
        }
    }
    let read = codex.send_raw_request("thread/read", params, None).await?;
    assert_eq!(read.pointer("/thread/turns/0/status"), Some(&json!("interrupted")), "{read}");
    Ok(())
}
