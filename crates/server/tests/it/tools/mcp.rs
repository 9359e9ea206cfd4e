//! Tools of MCP servers: approvals, changes within a turn, subagents, and servers that skills need.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use codicil_protocol::{
    ConfigWarning, ItemCompleted, McpServerElicitation, McpToolCallStatus, ThreadItem, ToolUserInput,
    TurnCompleted,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, from_value, json};

use super::{call_output, thread as open_thread};

/// An MCP server whose tool `grow` adds the tool `extra`.
const SERVER: &str = r#"#!/bin/sh
peek='{"name":"peek","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
poke='{"name":"poke","inputSchema":{"type":"object"}}'
tools="$peek,$poke,{\"name\":\"grow\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}}"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result="{\"tools\":[$tools]}";;
    *'"method":"tools/call"'*'"grow"'*)
      tools="$tools,{\"name\":\"extra\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}}"
      printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      result='{"content":[{"type":"text","text":"grown"}]}';;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"called"}]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A directory with the program of the server.
struct ServerProgram(tempfile::TempDir);

impl ServerProgram {
    fn new() -> ServerProgram {
        let program = ServerProgram(tempfile::tempdir().unwrap());
        fs::write(program.path(), SERVER).unwrap();
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("server")
    }

    fn config(&self) -> String {
        format!("[mcp_servers.s]\ncommand = {:?}\n", self.path().display().to_string())
    }
}

fn calls(tools: &[&str]) -> Script {
    let mut script = Script::new();
    for (number, tool) in tools.iter().enumerate() {
        script = script.call(format!("mcp__s__{tool}"), json!({})).call_id(format!("c{number}")).then();
    }
    script.say("Done")
}

async fn call_status(app: &mut App) -> McpToolCallStatus {
    let is_call = |item: &ThreadItem| matches!(item, ThreadItem::McpToolCall { .. });
    let completed = app.until_where::<ItemCompleted>(|completed| is_call(&completed.item)).await;
    let ThreadItem::McpToolCall { status, .. } = completed.item else { unreachable!("the item is a call") };
    status
}

#[tokio::test]
async fn policies_that_forbid_questions_decide_about_a_call() {
    let granular = json!({ "granular": { "sandbox_approval": true, "rules": true, "skill_approval": true,
        "request_permissions": true, "mcp_elicitations": false } });
    let check = async |policy: Value, sandbox: &str, expected: McpToolCallStatus, output: &str| {
        let server = ServerProgram::new();
        let mut app =
            App::builder().experimental().config(&server.config()).script(calls(&["poke"])).start().await;
        let params = json!({ "approvalPolicy": policy, "sandbox": sandbox });
        let thread = open_thread(&mut app, params).await;
        app.start_turn(&thread, "go").await;
        assert_eq!(call_status(&mut app).await, expected, "{policy} {sandbox}");
        app.until::<TurnCompleted>().await;
        let text = call_output(&app, "c0");
        assert!(text.contains(output), "{text}");
        app.ignore_rest();
    };
    let refused = "the approval policy is `never`";
    check(json!("never"), "workspace-write", McpToolCallStatus::Failed, refused).await;
    check(json!("never"), "danger-full-access", McpToolCallStatus::Completed, "called").await;
    check(granular, "workspace-write", McpToolCallStatus::Failed, "approval_mode = \"approve\"").await;
}

#[tokio::test]
async fn an_approval_is_an_elicitation_or_a_question_with_options() {
    let server = ServerProgram::new();
    let mut app = App::builder().config(&server.config()).script(calls(&["poke"])).start().await;
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "go").await;
    let asked = app.expect_request::<McpServerElicitation>().await;
    let accept = json!({ "action": "accept", "content": null, "_meta": null });
    app.reply(&asked, from_value(accept).unwrap()).await;
    assert_eq!(call_status(&mut app).await, McpToolCallStatus::Completed);
    app.ignore_rest();

    let config = format!("{}[features]\ntool_call_mcp_elicitation = false\n", server.config());
    let mut app = App::builder().config(&config).script(calls(&["poke", "poke"])).start().await;
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "go").await;
    let asked = app.expect_request::<ToolUserInput>().await;
    let question = &asked.params.questions[0];
    assert_eq!(question.id, "mcp_tool_call_approval_c0");
    let labels: Vec<_> = question.options.iter().flatten().map(|option| option.label.as_str()).collect();
    assert_eq!(labels, ["Approve Once", "Approve this Session", "Deny", "Cancel"]);
    let answers = json!({ "answers": { &question.id: { "answers": ["Approve this Session"] } } });
    app.reply(&asked, from_value(answers).unwrap()).await;
    assert_eq!(call_status(&mut app).await, McpToolCallStatus::Completed);
    assert_eq!(call_status(&mut app).await, McpToolCallStatus::Completed, "the session is approved");
    app.until::<TurnCompleted>().await;
    app.ignore_rest();
}

#[tokio::test]
async fn an_answer_without_an_option_does_not_run_the_tool() {
    let server = ServerProgram::new();
    let config = format!("{}[features]\ntool_call_mcp_elicitation = false\n", server.config());
    let mut app = App::builder().config(&config).script(calls(&["poke"])).start().await;
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "go").await;
    let asked = app.expect_request::<ToolUserInput>().await;
    let words = "This is a non-interactive session. Operator input is unavailable.";
    let answers = json!({ "answers": { &asked.params.questions[0].id: { "answers": [words] } } });
    app.reply(&asked, from_value(answers).unwrap()).await;
    assert_eq!(call_status(&mut app).await, McpToolCallStatus::Failed);
    app.until::<TurnCompleted>().await;
    assert_eq!(call_output(&app, "c0"), "user cancelled MCP tool call");
    app.ignore_rest();
}

#[tokio::test]
async fn a_tool_that_a_call_adds_is_offered_within_the_turn() {
    let server = ServerProgram::new();
    let mut app = App::builder().config(&server.config()).script(calls(&["grow", "extra"])).start().await;
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "never" })).await;
    app.run_turn(&thread, "go").await;
    app.ignore_rest();
    let requests = app.model().requests();
    assert!(!requests[0].tools().contains(&"mcp__s__extra"));
    assert!(requests[1].tools().contains(&"mcp__s__extra"));
    assert!(call_output(&app, "c1").contains("called"), "{}", call_output(&app, "c1"));
}

#[tokio::test]
async fn agents_of_agents_have_the_tools_of_mcp_servers() {
    let spawn = |message: &str| Reply::new().call("spawn_agent", json!({ "message": message }));
    let decide = move |request: &RecordedRequest| {
        let task = request.last_user_text().unwrap_or_default();
        let has_called = request.input().iter().any(|item| item["type"] == "function_call_output");
        match task.as_str() {
            "go" if !has_called => spawn("outer task"),
            "outer task" if !has_called => spawn("inner task"),
            "inner task" if !has_called => Reply::new().call("mcp__s__peek", json!({})).call_id("peek"),
            _ => Reply::new().say("Done"),
        }
    };
    let server = ServerProgram::new();
    let config = format!("{}[agents]\nmax_depth = 2\n", server.config());
    let mut app = App::builder().config(&config).script(Script::new().respond_with(decide)).start().await;
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "never" })).await;
    app.start_turn(&thread, "go").await;
    let completed = app
        .until_where::<ItemCompleted>(|completed| matches!(&completed.item, ThreadItem::McpToolCall { .. }));
    let completed = completed.await;
    assert_ne!(completed.thread_id, thread.id);
    let ThreadItem::McpToolCall { status, .. } = completed.item else { unreachable!("the item is a call") };
    assert_eq!(status, McpToolCallStatus::Completed);
    app.ignore_rest();
}

/// Writes a skill that needs the server.
fn write_skill(home: &Path, server: &ServerProgram) {
    let folder = home.join("skills/notes");
    fs::create_dir_all(folder.join("agents")).unwrap();
    let details = format!(
        "dependencies:\n  tools:\n    - type: mcp\n      value: s\n      transport: stdio\n      command: {}\n",
        server.path().display()
    );
    fs::write(folder.join("agents/openai.yaml"), details).unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: notes\ndescription: Takes notes\n---\nUse peek.\n")
        .unwrap();
}

#[tokio::test]
async fn a_server_that_a_skill_needs_is_installed_if_the_user_agrees() {
    let server = ServerProgram::new();
    let mut app = App::builder().script(calls(&["peek"])).start().await;
    write_skill(app.home(), &server);
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "$notes please").await;
    let asked = app.expect_request::<ToolUserInput>().await;
    let question = &asked.params.questions[0];
    assert!(question.question.contains(&server.path().display().to_string()), "{}", question.question);
    let answers = json!({ "answers": { &question.id: { "answers": ["Install"] } } });
    app.reply(&asked, from_value(answers).unwrap()).await;
    assert_eq!(call_status(&mut app).await, McpToolCallStatus::Completed);
    app.until::<TurnCompleted>().await;
    app.ignore_rest();
    let written = fs::read_to_string(app.home().join("config.toml")).unwrap();
    assert!(written.contains("[mcp_servers.s]"), "{written}");
}

#[tokio::test]
async fn a_server_that_a_skill_needs_is_not_installed_otherwise() {
    let server = ServerProgram::new();
    let mut app = App::start(Script::new().say("1").then().say("2")).await;
    write_skill(app.home(), &server);
    let thread = open_thread(&mut app, json!({ "approvalPolicy": "on-request" })).await;
    app.start_turn(&thread, "$notes please").await;
    let asked = app.expect_request::<ToolUserInput>().await;
    let answers = json!({ "answers": { &asked.params.questions[0].id: { "answers": ["Continue anyway"] } } });
    app.reply(&asked, from_value(answers).unwrap()).await;
    app.until::<TurnCompleted>().await;
    app.run_turn(&thread, "$notes again").await;
    assert!(!app.model().requests()[1].tools().contains(&"mcp__s__peek"), "the user is asked once");

    app.model().push(Script::new().say("3").then().say("4"));
    let silent = open_thread(&mut app, json!({ "approvalPolicy": "never", "sandbox": "read-only" })).await;
    app.start_turn(&silent, "$notes please").await;
    let warning = app.until::<ConfigWarning>().await;
    assert!(warning.summary.ends_with("not configured: s"), "{}", warning.summary);
    app.until::<TurnCompleted>().await;

    let off = json!({ "approvalPolicy": "on-request", "config": { "features.skill_mcp_dependency_install": false } });
    let off = open_thread(&mut app, off).await;
    app.run_turn(&off, "$notes please").await;
    app.ignore_rest();
    let written = fs::read_to_string(app.home().join("config.toml")).unwrap();
    assert!(!written.contains("mcp_servers"), "{written}");
}
