//! An evaluation from start to end: requests, events and the answer.

use std::collections::BTreeMap;

use codicil_agents::{
    evaluate::{
        ADAPTER_NAME, AskForApproval, ClientConfig, EvaluationCause, EvaluationEvent, EvaluationPhase,
        ModelConfig, OutputError, Personality, Prompt, ReasoningEffort, ReasoningSummary, SandboxMode,
        Section, TokenUsage, ToolKind,
    },
    mcp_servers::McpServer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Recording,
    fake::{Fake, evaluator},
    soon,
};

fn config() -> ClientConfig {
    ClientConfig { cwd: Some("/work".into()), ..ClientConfig::default() }
}

/// Unit test: `PromptRendered`, `PromptExecuted` emitted once.
#[tokio::test]
async fn prompt_rendered_and_prompt_executed_are_emitted_once() {
    let (evaluator, mut servers) = evaluator(config());
    let recording = Recording::new();
    let prompt = Prompt::new("demo/codex").section(Section::new("Task", "Say hello."));
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        assert_eq!(recording.names(), ["PromptRendered"], "before anything is started");
        fake.start_thread().await;
        fake.start_turn().await;
        fake.usage([1100, 110], [100, 10]).await;
        fake.say("Hello.").await;
        fake.complete().await;
        assert_eq!(fake.next().await, None, "the connection ends");
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    let answer = answer.unwrap();
    let usage = TokenUsage { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
    assert_eq!((&*answer.text, answer.usage), ("Hello.", Some(usage)));
    assert_eq!((&*answer.thread_id, &*answer.turn_id), ("t", "u"));
    assert_eq!(recording.names(), ["PromptRendered", "PromptExecuted"]);
    let EvaluationEvent::PromptRendered(rendered) = &recording.events()[0] else { panic!() };
    assert_eq!((&*rendered.adapter, &*rendered.prompt), (ADAPTER_NAME, "demo/codex"));
    assert_eq!((&*rendered.text, &rendered.output_schema), ("## Task\n\nSay hello.", &None));
    let EvaluationEvent::PromptExecuted(executed) = &recording.events()[1] else { panic!() };
    assert_eq!((&*executed.text, executed.usage), ("Hello.", Some(usage)));
}

#[tokio::test]
async fn every_field_of_the_configuration_reaches_the_server() {
    let config = ClientConfig {
        approval_policy: AskForApproval::OnFailure,
        sandbox_mode: Some(SandboxMode::ReadOnly),
        ephemeral: true,
        client_name: "my-app".into(),
        client_version: "2.0".into(),
        title: Some("My App".into()),
        mcp_servers: BTreeMap::from([
            ("files".into(), McpServer::stdio("/path/to/server", ["--flag"])),
            ("web".into(), McpServer::http("http://localhost:8080/mcp")),
        ]),
        ..config()
    };
    let (evaluator, mut servers) = evaluator(config);
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.next().await;
        let hello = fake.expect("initialize").await;
        let info = json!({ "name": "my-app", "title": "My App", "version": "2.0" });
        assert_eq!(hello["params"]["clientInfo"], info);
        assert_eq!(hello["params"]["capabilities"]["experimentalApi"], true);
        assert_eq!(hello.get("jsonrpc"), None);
        fake.reply(&hello, json!({ "userAgent": "fake" })).await;
        fake.expect("initialized").await;
        let params = fake.start_thread().await;
        let servers = json!({ "files": { "command": "/path/to/server", "args": ["--flag"] },
                              "web": { "url": "http://localhost:8080/mcp" } });
        assert_eq!(params["config"], json!({ "mcp_servers": servers }));
        assert_eq!((params.get("model"), &params["cwd"]), (None, &json!("/work")));
        assert_eq!((&params["approvalPolicy"], &params["ephemeral"]), (&json!("on-failure"), &json!(true)));
        assert_eq!(params["sandbox"], "read-only");
        assert_eq!(params.get("dynamicTools"), None);
        let params = fake.start_turn().await;
        assert_eq!(params["input"][0]["text"], "Hi");
        for left_out in ["effort", "summary", "personality", "outputSchema"] {
            assert_eq!(params.get(left_out), None, "{left_out}");
        }
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    assert_eq!(answer.unwrap().text, "");
}

/// WINK's specification: `initialize` and `thread/start` of its adapter.
#[tokio::test]
async fn the_wink_presets_reach_the_server() {
    let (evaluator, mut servers) =
        evaluator(ClientConfig { cwd: Some("/work".into()), ..ClientConfig::wink() });
    let evaluator = evaluator.with_model(ModelConfig::wink());
    let recording = Recording::new();
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.next().await;
        let hello = fake.expect("initialize").await;
        let info = json!({ "name": "wink", "title": "WINK Agent", "version": "0.1.0" });
        assert_eq!(hello["params"]["clientInfo"], info);
        fake.reply(&hello, json!({ "userAgent": "fake" })).await;
        fake.expect("initialized").await;
        let params = fake.start_thread().await;
        assert_eq!((&params["model"], &params["cwd"]), (&json!("gpt-5.1-codex"), &json!("/work")));
        fake.start_turn().await;
        fake.complete().await;
    };
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    answer.unwrap();
    let EvaluationEvent::PromptRendered(rendered) = &recording.events()[0] else { panic!() };
    assert_eq!(rendered.adapter, "codex_app_server");
}

#[tokio::test]
async fn the_models_settings_reach_the_turn() {
    let (evaluator, mut servers) = evaluator(config());
    // The same servers with another model.
    let model = ModelConfig {
        model: Some("gpt-5.2".into()),
        effort: Some(ReasoningEffort::Medium),
        summary: Some(ReasoningSummary::Concise),
        personality: Some(Personality::Friendly),
    };
    let evaluator = evaluator.with_model(model);
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        assert_eq!(fake.start_thread().await["model"], "gpt-5.2");
        let params = fake.start_turn().await;
        let sent = (&params["effort"], &params["summary"], &params["personality"]);
        assert_eq!(sent, (&json!("medium"), &json!("concise"), &json!("friendly")));
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    answer.unwrap();
}

/// Unit test: `ToolInvoked` for `commandExecution` and `fileChange` items.
#[tokio::test]
async fn tool_invoked_for_command_execution_and_file_change_items() {
    let (evaluator, mut servers) = evaluator(config());
    let recording = Recording::new();
    let prompt = Prompt::text("Hi");
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        work(&fake).await;
        // A repeated item is reported once.
        fake.item(json!({ "type": "webSearch", "id": "i4", "query": "rust" })).await;
        fake.item(json!({ "type": "reasoning", "id": "i5" })).await;
        // The older format, in addition to the current one.
        fake.notify("codex/event/exec_command_end", json!({ "msg": {} })).await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    answer.unwrap();
    let reported: Vec<_> = recording
        .tools()
        .into_iter()
        .map(|tool| (tool.kind, tool.name, tool.call_id, tool.success, tool.output))
        .collect();
    let mcp = ToolKind::Mcp { server: "files".into() };
    assert_eq!(
        reported,
        [
            (ToolKind::Command, "command".into(), "i0".into(), true, "a\n".into()),
            (ToolKind::Command, "command".into(), "i1".into(), false, "no\n".into()),
            (ToolKind::FileChange, "file_change".into(), "i2".into(), true, "/work/a".into()),
            (mcp, "read".into(), "i3".into(), true, "text".into()),
            (ToolKind::WebSearch, "web_search".into(), "i4".into(), true, String::new()),
        ]
    );
}

async fn work(fake: &Fake) {
    let command = |id: &str, status: &str, output: &str, code: i32| {
        json!({ "type": "commandExecution", "id": id, "command": "ls", "cwd": "/work", "status": status,
                "commandActions": [], "aggregatedOutput": output, "exitCode": code, "durationMs": 3 })
    };
    fake.item(command("i0", "completed", "a\n", 0)).await;
    fake.item(command("i1", "failed", "no\n", 1)).await;
    let changes = json!([{ "path": "/work/a", "kind": { "type": "add" }, "diff": "x" }]);
    fake.item(json!({ "type": "fileChange", "id": "i2", "changes": changes, "status": "completed" })).await;
    let result = json!({ "content": [{ "type": "text", "text": "text" }], "structuredContent": null });
    fake.item(
        json!({ "type": "mcpToolCall", "id": "i3", "server": "files", "tool": "read", "status": "completed",
                      "arguments": {}, "result": result, "error": null, "durationMs": 1 }),
    )
    .await;
    fake.item(json!({ "type": "webSearch", "id": "i4", "query": "rust" })).await;
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Summary {
    title: String,
    files: Vec<String>,
    line_count: u32,
}

/// Unit test: structured output via `outputSchema`.
#[tokio::test]
async fn structured_output_via_output_schema() {
    let (evaluator, mut servers) = evaluator(config());
    let recording = Recording::new();
    let prompt = Prompt::text("Summarise");
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).value::<Summary>();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        let schema = fake.start_turn().await["outputSchema"].clone();
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        assert_eq!(schema["required"].as_array().unwrap().len(), 3);
        assert_eq!(schema["properties"]["files"]["items"]["type"], "string");
        fake.say(r#"{"title":"T","files":["a"],"line_count":3}"#).await;
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    let expected = Summary { title: "T".into(), files: vec!["a".into()], line_count: 3 };
    assert_eq!(answer.unwrap().value, expected);
    assert_eq!(recording.names(), ["PromptRendered", "PromptExecuted"]);
    let EvaluationEvent::PromptRendered(rendered) = &recording.events()[0] else { panic!() };
    assert!(rendered.output_schema.as_ref().is_some_and(Value::is_object));
}

#[tokio::test]
async fn missing_or_invalid_structured_output_is_an_error_of_the_response_phase() {
    let check = async |said: &str, is_expected: fn(&OutputError) -> bool| {
        let (evaluator, mut servers) = evaluator(config());
        let recording = Recording::new();
        let prompt = Prompt::text("Summarise");
        let evaluating = evaluator.evaluate(&prompt).session(&recording.session).value::<Summary>();
        let serving = async { servers.accept().await.play(said).await };
        let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
        let error = answer.unwrap_err();
        assert_eq!(error.phase(), Some(EvaluationPhase::Response));
        let failed = error.failed().unwrap();
        assert!(matches!(&failed.cause, EvaluationCause::Output(output) if is_expected(output)), "{error}");
        assert_eq!(failed.turn_id.as_deref(), Some("u"));
        assert_eq!(recording.names(), ["PromptRendered"], "nothing was executed that can be used");
    };
    check("", |error| *error == OutputError::Missing).await;
    check("I cannot.", |error| matches!(error, OutputError::Invalid { text, .. } if text == "I cannot."))
        .await;
    check(r#"{"title":"T"}"#, |error| error.to_string().contains("missing field `files`")).await;
}

#[tokio::test]
async fn a_message_without_a_completed_item_consists_of_its_deltas() {
    let (evaluator, mut servers) = evaluator(config());
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        for delta in ["Hel", "lo"] {
            let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "delta": delta });
            fake.notify("item/agentMessage/delta", params).await;
        }
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    assert_eq!(answer.unwrap().text, "Hello");
}
