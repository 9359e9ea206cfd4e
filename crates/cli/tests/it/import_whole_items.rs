//! `codicil import` of files that store whole items.
//!
//! `tests/codex_home_166` was written by codex-cli 0.166.0 with a scripted model. Its own long texts have
//! been removed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallResponse, Thread, ThreadId, ThreadItem,
    ThreadRead, ThreadReadParams, ThreadResume, ThreadResumeParams, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Script, TestTransport};
use serde_json::{Value, json};

/// A thread with a command, a patch and a tool of the client in a namespace.
const TOOLS: &str = "01a1e31c-e3e2-7af2-a2b8-00658f8baba3";
/// A thread with an image, an MCP server, a search, a command of the user and a compacted history.
const OTHERS: &str = "01a1e31d-e698-7840-afe7-f75be76ad038";

async fn imported(script: Script) -> App {
    let app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let from: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/codex_home_166");
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("import").arg(from).arg("--json").env("CODICIL_HOME", app.home());
    let output = command.env_remove("CODEX_HOME").stdin(Stdio::null()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((&report["imported"], &report["skippedLines"]), (&2.into(), &0.into()), "{report}");
    app
}

async fn read(app: &mut App, id: &str) -> Thread {
    let params = ThreadReadParams { thread_id: ThreadId::from(id), include_turns: true };
    app.call::<ThreadRead>(params).await.thread
}

/// Returns each item as a few words.
fn items(thread: &Thread) -> Vec<Vec<String>> {
    let words = |item: &ThreadItem| match item {
        ThreadItem::UserMessage { content, .. } => format!("user {}", content.len()),
        ThreadItem::AgentMessage { text, .. } => format!("agent {text}"),
        ThreadItem::Reasoning { summary, .. } => format!("reasoning {}", summary.join(" ")),
        ThreadItem::CommandExecution { cwd, exit_code, .. } => format!("command {cwd} {exit_code:?}"),
        ThreadItem::FileChange { changes, .. } => format!("patch {}", changes[0].path),
        ThreadItem::DynamicToolCall { namespace, tool, .. } => format!("tool {namespace:?} {tool}"),
        ThreadItem::McpToolCall { server, tool, .. } => format!("mcp {server} {tool}"),
        ThreadItem::WebSearch { query, .. } => format!("search {query}"),
        ThreadItem::ImageView { path, .. } => format!("image {path}"),
        ThreadItem::ContextCompaction { .. } => "compaction".to_owned(),
        other => panic!("{other:?}"),
    };
    thread.turns.iter().map(|turn| turn.items.iter().map(words).collect()).collect()
}

#[tokio::test]
async fn every_item_is_imported_once() {
    let mut app = imported(Script::new()).await;
    let thread = read(&mut app, TOOLS).await;
    assert_eq!((thread.name.as_deref(), thread.preview.as_str()), (Some("My name"), "do it"));
    assert_eq!(thread.cli_version, "0.166.0");
    let expected = [
        vec![
            "user 1",
            "reasoning Thinking about it",
            "command /work/ws Some(3)",
            "patch /work/ws/made.txt",
            "tool Some(\"app\") look",
            "agent All done",
        ],
        vec!["user 1", "command /work/ws Some(0)", "agent Second"],
    ];
    assert_eq!(items(&thread), expected);
    assert!(thread.turns.iter().all(|turn| turn.status == TurnStatus::Completed));

    let thread = read(&mut app, OTHERS).await;
    let second = vec!["user 2", "mcp mock ask", "image /work/ws/a.png", "search weather", "agent thinking"];
    let expected = [
        vec!["user 1", "agent hi"],
        second,
        vec!["command /work/ws Some(0)"],
        vec!["compaction"],
        vec!["user 1", "agent end"],
        vec!["user 1", "agent sum"],
    ];
    assert_eq!(items(&thread), expected);
    app.ignore_rest();
}

#[tokio::test]
async fn an_imported_thread_keeps_its_tools_and_history() {
    let call = json!({ "type": "function_call", "id": "fc_z", "namespace": "app", "name": "look",
        "arguments": "{}", "call_id": "z" });
    let mut app = imported(Script::new().item(call).then().say("Still here")).await;
    let params = ThreadResumeParams {
        cwd: Some(app.workspace().display().to_string()),
        model_provider: Some("mock".to_owned()),
        ..ThreadResumeParams::new(ThreadId::from(TOOLS))
    };
    let thread = app.call::<ThreadResume>(params).await.thread;
    app.start_turn(&thread, "And now?").await;
    let request = app.expect_request::<DynamicToolCall>().await;
    assert_eq!((request.params.namespace.as_deref(), request.params.tool.as_str()), (Some("app"), "look"));
    let text = DynamicToolCallOutputContentItem::InputText { text: "seen".to_owned() };
    app.reply(&request, DynamicToolCallResponse { content_items: vec![text], success: true }).await;
    app.until::<TurnCompleted>().await;

    let input = Value::from(app.model().requests()[0].input().to_vec()).to_string();
    for part in ["do it", "All done", "*** Add File: made.txt", "And now?"] {
        assert!(input.contains(part), "{part}: {input}");
    }
    assert_eq!(read(&mut app, TOOLS).await.turns.len(), 3);
    app.ignore_rest();
}
