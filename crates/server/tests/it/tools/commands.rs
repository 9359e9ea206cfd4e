//! Commands: their sandbox, their items, and their output for the model.

use codicil_protocol::{
    CodexErrorInfo, CommandExecutionOutputDelta, CommandExecutionStatus, ErrorReported,
    ThreadDecrementElicitation, ThreadDecrementElicitationParams, ThreadIncrementElicitation,
    ThreadIncrementElicitationParams, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::{call_output, command_end, free_thread, thread};
use crate::processes::until_process_ends;

/// A policy that cannot be enforced: a writable root that would undo the rest of it.
fn unusable_policy() -> Value {
    json!({ "type": "workspaceWrite", "writableRoots": ["/proc"] })
}

#[tokio::test]
async fn a_turn_fails_with_sandbox_error_if_no_command_can_run() {
    let script = Script::new().call("exec_command", json!({ "cmd": "true" })).call_id("c");
    let mut app = App::start(script).await;
    let params = json!({ "approvalPolicy": "never", "sandbox": unusable_policy() });
    let thread = thread(&mut app, params).await;
    app.start_turn(&thread, "run").await;

    let (status, _, output) = command_end(&mut app).await;
    assert_eq!(status, CommandExecutionStatus::Failed);
    assert!(output.unwrap().contains("/proc"));
    let reported = app.until::<ErrorReported>().await;
    assert_eq!(reported.error.codex_error_info, Some(CodexErrorInfo::SandboxError));
    assert!(reported.error.message.contains("/proc"), "{}", reported.error.message);
    let turn = app.until::<TurnCompleted>().await.turn;
    assert_eq!((turn.status, turn.error), (TurnStatus::Failed, Some(reported.error)));
    app.rest().await;
}

#[tokio::test]
async fn a_model_that_can_ask_for_more_is_informed_of_an_unusable_sandbox() {
    let script = Script::new().call("exec_command", json!({ "cmd": "true" })).call_id("c").then().say("Ok");
    let mut app = App::start(script).await;
    let params = json!({ "approvalPolicy": "on-request", "sandbox": unusable_policy() });
    let thread = thread(&mut app, params).await;
    assert_eq!(app.run_turn(&thread, "run").await.status, TurnStatus::Completed);
    assert!(call_output(&app, "c").contains("not allowed as a writable root: /proc"));
    app.rest().await;
}

#[tokio::test]
async fn a_command_is_shown_from_its_start_to_its_end() {
    let mut app = App::start(
        Script::new()
            .say("Let me look")
            .call("exec_command", json!({ "cmd": "printf 'a\\nb\\n'" }))
            .call_id("c")
            .then()
            .say("Done"),
    )
    .await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "run").await;

    let seen = app.rest().await;
    let said = seen.find("← item/completed agentMessage <Let me look>").unwrap();
    let started = seen.find("← item/started commandExecution").unwrap();
    assert!(said < started, "{seen}");
    let shown = seen.find("← item/commandExecution/outputDelta <a\\nb\\n>").unwrap();
    let ended = seen.find("completed exit 0").unwrap();
    assert!(started < shown && shown < ended && ended < seen.find("agentMessage <Done>").unwrap(), "{seen}");
    let text = call_output(&app, "c");
    assert!(text.contains("Process exited with code 0") && text.ends_with("Output:\na\nb\n"), "{text}");
}

#[tokio::test]
async fn the_sandbox_stops_a_write_and_the_model_gets_the_error() {
    let mut app = App::start(
        Script::new().call("exec_command", json!({ "cmd": "touch made" })).call_id("c").then().say("No"),
    )
    .await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never", "sandbox": "read-only" })).await;
    app.start_turn(&thread, "run").await;

    let (status, code, _) = command_end(&mut app).await;
    assert_eq!((status, code), (CommandExecutionStatus::Failed, Some(1)));
    app.rest().await;
    assert!(!app.workspace().join("made").exists());
    assert!(call_output(&app, "c").starts_with("exec_command failed for "), "{}", call_output(&app, "c"));
}

#[tokio::test]
async fn only_files_in_the_workspace_can_be_written() {
    let config = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n";
    let outside = tempfile::tempdir().unwrap();
    let line = format!("echo in > inside; echo out > {}/outside", outside.path().display());
    let script = Script::new().call("exec_command", json!({ "cmd": line })).then().say("Done");
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never", "sandbox": "workspace-write" })).await;
    app.run_turn(&thread, "run").await;

    assert_eq!(std::fs::read_to_string(app.workspace().join("inside")).unwrap(), "in\n");
    assert!(!outside.path().join("outside").exists());
    app.rest().await;
}

#[tokio::test]
async fn calls_of_one_response_run_in_parallel() {
    // Each call waits for the file of the other, so they cannot run one after the other.
    let meet = |own: &str, other: &str| json!({ "cmd": format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo met") });
    let script = Script::new()
        .call("exec_command", meet("one", "two"))
        .call_id("a")
        .call("exec_command", meet("two", "one"))
        .call_id("b")
        .then()
        .say("Done");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.run_turn(&thread, "run").await;

    assert!(call_output(&app, "a").ends_with("met\n") && call_output(&app, "b").ends_with("met\n"));
    app.rest().await;
}

#[tokio::test]
async fn an_interrupted_command_keeps_its_output_and_leaves_no_process() {
    let line = "sleep 1000 & echo $! > pid; echo started; wait";
    let mut app = App::start(Script::new().call("exec_command", json!({ "cmd": line })).call_id("c")).await;
    let thread = free_thread(&mut app).await;
    let turn = app.start_turn(&thread, "run").await;
    app.until::<CommandExecutionOutputDelta>().await;
    let pid = std::fs::read_to_string(app.workspace().join("pid")).unwrap();

    app.interrupt(&turn).await;

    let (status, code, output) = command_end(&mut app).await;
    assert_eq!((status, code, output.as_deref()), (CommandExecutionStatus::Failed, None, Some("started\n")));
    let rest = app.rest().await;
    assert!(rest.ends_with("← turn/completed interrupted"), "{rest}");
    until_process_ends(pid.trim().parse().unwrap()).await;
    // A model accepts only a history in which every call has an output.
    app.model().push(Script::new().say("Back"));
    assert_eq!(app.run_turn(&thread, "go on").await.status, TurnStatus::Completed);
    assert_eq!(call_output(&app, "c"), "aborted by user");
    app.rest().await;
}

#[tokio::test]
async fn a_shell_command_has_a_time_limit() {
    let script = Script::new()
        .call("shell_command", json!({ "command": "echo on; sleep 1000", "timeout_ms": 300 }))
        .call_id("c")
        .then()
        .say("Too slow");
    let config = "[features]\nunified_exec = false\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "run").await;

    let (status, code, output) = command_end(&mut app).await;
    assert_eq!((status, code, output.as_deref()), (CommandExecutionStatus::Failed, Some(124), Some("on\n")));
    app.rest().await;
    assert!(call_output(&app, "c").starts_with("Exit code: 124\n"), "{}", call_output(&app, "c"));
}

#[tokio::test]
async fn open_elicitations_pause_the_timeout_of_a_command() {
    let arguments = json!({ "cmd": "sleep 0.6; echo through", "yield_time_ms": 250 });
    let script = Script::new().call("exec_command", arguments).call_id("c").then().say("Done");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = free_thread(&mut app).await;
    let begun = ThreadIncrementElicitationParams { thread_id: thread.id.clone() };
    assert!(app.call::<ThreadIncrementElicitation>(begun).await.paused);

    app.run_turn(&thread, "run").await;

    assert!(call_output(&app, "c").contains("Process exited with code 0"), "{}", call_output(&app, "c"));
    let ended = ThreadDecrementElicitationParams { thread_id: thread.id.clone() };
    assert!(!app.call::<ThreadDecrementElicitation>(ended).await.paused);
    app.rest().await;
}

#[tokio::test]
async fn invalid_arguments_are_explained_to_the_model() {
    let script = Script::new()
        .call_text("exec_command", "{oops")
        .call_id("a")
        .call("no_such_tool", json!({}))
        .call_id("b")
        .call("write_stdin", json!({ "session_id": 4711 }))
        .call_id("c")
        .call("request_permissions", json!({ "permissions": {} }))
        .call_id("d")
        .then()
        .say("Sorry");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    assert_eq!(app.run_turn(&thread, "run").await.status, TurnStatus::Completed);

    assert!(
        call_output(&app, "a").starts_with("failed to parse function arguments: "),
        "{}",
        call_output(&app, "a")
    );
    assert_eq!(call_output(&app, "b"), "unsupported call: no_such_tool");
    assert_eq!(call_output(&app, "c"), "write_stdin failed: no session with id 4711");
    assert_eq!(call_output(&app, "d"), "unsupported call: request_permissions", "its feature is off");
    app.rest().await;
}

#[tokio::test]
async fn long_output_is_truncated_for_the_model_only() {
    let line = "yes 0123456789 | head -c 200000";
    let script = Script::new().call("exec_command", json!({ "cmd": line })).call_id("c").then().say("Much");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "run").await;

    let (_, _, output) = command_end(&mut app).await;
    assert_eq!(output.unwrap().len(), 200_000);
    app.rest().await;
    let text = call_output(&app, "c");
    assert!(text.len() < 45_000 && text.contains("Original token count: 50000"), "{} bytes", text.len());
}
