//! Hooks: programs of the user that can change a turn.

use std::fs;

use codicil_protocol::{HookCompleted, HookRunStatus, HookStarted, TurnStatus};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

/// Starts a server whose hooks for these events run a script, with the event's JSON in `$IN`.
async fn app(script: Script, events: &[&str], hook: &str) -> App {
    let app = App::builder().config("[features]\ncodex_hooks = true\n").script(script).start().await;
    let program = app.home().join("hook.sh");
    fs::write(&program, format!("IN=$(cat)\n{hook}\n")).unwrap();
    let command = format!("sh {}", program.display());
    let entry = json!([{ "hooks": [{ "type": "command", "command": command, "timeout": 20 }] }]);
    let hooks: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), entry.clone())).collect();
    fs::write(app.home().join("hooks.json"), json!({ "hooks": hooks }).to_string()).unwrap();
    app
}

#[tokio::test]
async fn hooks_run_at_every_point_of_a_turn() {
    let script = Script::new().call("exec_command", json!({ "cmd": "echo hi" })).then().say("Done");
    let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    let mut app = app(script, &events, "printf '%s\\n' \"$IN\" >> log").await;
    let thread = super::tools::free_thread(&mut app).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;

    let log = fs::read_to_string(app.workspace().join("log")).unwrap();
    let inputs: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = inputs.iter().map(|input| input["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(names, events);
    assert_eq!(inputs[1]["prompt"], "go");
    assert_eq!(inputs[2]["tool_input"], json!({ "command": "echo hi" }));
    assert!(inputs[3]["tool_response"].as_str().unwrap().contains("hi"));
    assert_eq!(inputs[4]["last_assistant_message"], "Done");
}

#[tokio::test]
async fn a_blocked_prompt_reaches_neither_the_model_nor_the_history() {
    let mut app = app(Script::new(), &["UserPromptSubmit"], "echo 'not allowed' >&2; exit 2").await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;

    let run = app.until::<HookCompleted>().await.run;
    assert_eq!((run.status, run.entries[0].text.as_str()), (HookRunStatus::Blocked, "not allowed"));
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    assert_eq!(app.read(&thread).await.turns[0].items, []);
    app.restart().await;
    assert_eq!(app.read(&thread).await.turns[0].items, []);
    app.model().push(Script::new().say("Ok"));
    fs::write(app.home().join("hook.sh"), "").unwrap();
    app.resume(&thread).await;
    app.run_turn(&thread, "something else").await;
    app.rest().await;
    assert!(!app.model().requests()[0].body().to_string().contains("\"go\""));
}

/// An accepted prompt survives a crash, whatever the hooks would have decided.
#[tokio::test]
async fn a_prompt_is_stored_before_its_hooks_run() {
    let hook = "while ! [ -e go ]; do sleep 0.02; done";
    let mut app = app(Script::new().say("Ok"), &["UserPromptSubmit"], hook).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "tidy the repo").await;
    app.until::<HookStarted>().await;

    let written = fs::read_to_string(thread.path.as_ref().unwrap()).unwrap();

    assert!(written.contains("tidy the repo"), "{written}");
    fs::write(app.workspace().join("go"), "").unwrap();
    assert!(app.rest().await.ends_with("← turn/completed completed"));
}

#[tokio::test]
async fn a_blocked_tool_does_not_run_and_the_model_gets_the_reason() {
    let script =
        Script::new().call("exec_command", json!({ "cmd": "touch made" })).call_id("c").then().say("Oh");
    let mut app = app(script, &["PreToolUse"], "echo 'no shell today' >&2; exit 2").await;
    let thread = super::tools::free_thread(&mut app).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;

    assert!(!app.workspace().join("made").exists());
    let output = app.model().requests()[1].tool_output("c").unwrap();
    assert!(output.ends_with("no shell today"), "{output}");
}

#[tokio::test]
async fn a_stop_hook_can_continue_the_turn() {
    let script = Script::new().say("Done").then().say("Really done");
    let hook = "case \"$IN\" in *'\"stop_hook_active\":false'*) echo 'run the tests' >&2; exit 2;; esac";
    let mut app = app(script, &["Stop"], hook).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;

    let rest = app.rest().await;
    assert!(rest.contains("agentMessage <Really done>"), "{rest}");
    let requests = app.model().requests();
    assert_eq!(requests[1].last_user_text().as_deref(), Some("run the tests"));
}

#[tokio::test]
async fn the_context_of_a_hook_reaches_the_model() {
    let mut app = app(Script::new().say("Ok"), &["UserPromptSubmit"], "echo 'Today is Monday.'").await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "go").await;
    app.rest().await;

    let body = app.model().requests()[0].body().to_string();
    assert!(body.contains("Today is Monday."), "{body}");
}

#[tokio::test]
async fn a_failing_hook_changes_nothing() {
    let mut app = app(Script::new().say("Ok"), &["UserPromptSubmit"], "exit 3").await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;

    let run = app.until::<HookCompleted>().await.run;
    assert_eq!(
        (run.status, run.entries[0].text.as_str()),
        (HookRunStatus::Failed, "hook exited with code 3")
    );
    app.rest().await;
    assert_eq!(app.read(&thread).await.turns[0].status, TurnStatus::Completed);
}
