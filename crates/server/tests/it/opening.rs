//! The settings of `thread/start`, `thread/resume` and `thread/fork`: each has its effect, or the client is informed.

use codicil_protocol::{ConfigWarning, Initialize, ThreadFork, ThreadNameSet, ThreadResume, ThreadStart};
use codicil_testkit::{App, Reply, Script};
use serde_json::{from_value, json};

fn always(text: &str) -> Script {
    Script::new().repeat(Reply::new().say(text))
}

/// Returns how often the last request contains a text.
fn count_in_last_request(app: &App, text: &str) -> usize {
    app.model().requests().pop().unwrap().body().to_string().matches(text).count()
}

#[tokio::test]
async fn an_object_sandbox_keeps_its_details() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = outside.path().canonicalize().unwrap();
    let touch = format!("touch {}", root.join("made").display());
    let script = Script::new().call("exec_command", json!({ "cmd": touch })).then().say("Ok");
    let mut app = App::start(script).await;
    let policy = json!({ "type": "workspaceWrite", "writableRoots": [root], "networkAccess": true });
    let params = json!({ "cwd": app.workspace(), "approvalPolicy": "never", "sandbox": policy });
    let started = app.call::<ThreadStart>(from_value(params).unwrap()).await;
    let expected = json!({ "type": "workspaceWrite", "writableRoots": [root], "networkAccess": true,
        "readOnlyAccess": { "type": "fullAccess" }, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false });
    assert_eq!(serde_json::to_value(&started.sandbox).unwrap(), expected);
    app.run_turn(&started.thread, "make it").await;
    assert!(root.join("made").exists());

    app.rest().await;
    app.restart().await;
    let external = json!({ "type": "externalSandbox", "networkAccess": "enabled" });
    let params = json!({ "threadId": started.thread.id, "sandbox": external });
    let resumed = app.call::<ThreadResume>(from_value(params).unwrap()).await;
    assert_eq!(serde_json::to_value(&resumed.sandbox).unwrap(), external);
    let params = json!({ "threadId": started.thread.id, "sandbox": policy });
    let forked = app.call::<ThreadFork>(from_value(params).unwrap()).await;
    assert_eq!(serde_json::to_value(&forked.sandbox).unwrap(), expected);
    app.rest().await;
}

#[tokio::test]
async fn developer_instructions_of_a_resume_or_fork_reach_the_model_once() {
    let mut app = App::start(always("Hi")).await;
    let params = json!({ "developerInstructions": "FIRST RULE" });
    let thread = app.start_thread_with(from_value(params).unwrap()).await;
    app.run_turn(&thread, "one").await;
    app.rest().await;

    app.restart().await;
    let params = json!({ "threadId": thread.id, "developerInstructions": "SECOND RULE" });
    app.call::<ThreadResume>(from_value(params).unwrap()).await;
    app.run_turn(&thread, "two").await;
    app.run_turn(&thread, "three").await;
    assert_eq!(count_in_last_request(&app, "FIRST RULE"), 1);
    assert_eq!(count_in_last_request(&app, "SECOND RULE"), 1);

    let params = json!({ "threadId": thread.id, "developerInstructions": "THIRD RULE" });
    let forked = app.call::<ThreadFork>(from_value(params).unwrap()).await.thread;
    app.run_turn(&forked, "four").await;
    assert_eq!(count_in_last_request(&app, "THIRD RULE"), 1);
    app.rest().await;

    // Without a change nothing is sent again.
    app.restart().await;
    app.resume(&forked).await;
    app.run_turn(&forked, "five").await;
    assert_eq!(count_in_last_request(&app, "THIRD RULE"), 1);
    app.rest().await;
}

#[tokio::test]
async fn developer_instructions_of_an_injected_history_reach_the_model() {
    let mut app = App::builder().experimental().script(always("Hi")).start().await;
    let message = json!({ "type": "message", "role": "user",
        "content": [{ "type": "input_text", "text": "before" }] });
    let params = json!({ "threadId": crate::NO_THREAD, "history": [message],
        "developerInstructions": "THE RULE", "baseInstructions": "THE BASE" });
    let thread = app.call::<ThreadResume>(from_value(params).unwrap()).await.thread;
    app.run_turn(&thread, "one").await;
    assert_eq!(count_in_last_request(&app, "THE RULE"), 1);
    assert_eq!(app.model().requests().pop().unwrap().body()["instructions"], "THE BASE");
    app.rest().await;
}

#[tokio::test]
async fn a_loaded_thread_keeps_its_settings_and_the_client_is_warned() {
    let mut app = App::start(always("Hi")).await;
    let params = json!({ "developerInstructions": "RULE", "config": { "model_verbosity": "low" } });
    let thread = app.start_thread_with(from_value(params).unwrap()).await;
    let cwd = app.workspace().to_owned();
    let in_force = json!({ "threadId": thread.id, "cwd": cwd, "approvalPolicy": "on-request",
        "sandbox": "read-only", "developerInstructions": "RULE", "config": { "model_verbosity": "low" } });
    let resumed = app.call::<ThreadResume>(from_value(in_force).unwrap()).await;
    assert_eq!(app.rest().await, "", "nothing differs");

    let others = json!({ "threadId": thread.id, "model": "other", "cwd": "/", "approvalPolicy": "never",
        "sandbox": { "type": "readOnly", "networkAccess": true }, "personality": "friendly",
        "baseInstructions": "BASE", "developerInstructions": "OTHER",
        "config": { "model_verbosity": "high", "web_search": "disabled" } });
    let joined = app.call::<ThreadResume>(from_value(others).unwrap()).await;
    assert_eq!(joined.model, resumed.model);
    assert_eq!(joined.approval_policy, resumed.approval_policy);
    assert_eq!(joined.sandbox, resumed.sandbox);
    assert_eq!(joined.cwd, resumed.cwd);
    let warning = app.take::<ConfigWarning>().await;
    assert_eq!(
        warning.summary,
        format!(
            "thread {} is loaded already; not applied: model, cwd, approvalPolicy, sandbox, personality, \
             baseInstructions, developerInstructions, config.model_verbosity, config.web_search",
            thread.id
        )
    );
    assert!(warning.details.unwrap().contains("thread/settings/update"));
    app.run_turn(&thread, "go").await;
    assert_eq!(app.model().requests().pop().unwrap().model(), Some("mock-model"));
    app.rest().await;
}

async fn initialize(app: &mut App, name: &str, version: &str) {
    let hello = json!({ "clientInfo": { "name": name, "title": null, "version": version } });
    app.call::<Initialize>(from_value(hello).unwrap()).await;
}

#[tokio::test]
async fn a_fork_keeps_the_name_for_clients_that_expect_it() {
    for (name, version, expected) in [
        ("codex-tui", "0.166.0", Some("My thread")),
        ("codex_python_sdk", "0.144.4-beta.1", Some("My thread")),
        ("codex-tui", "0.118.0", None),
        ("my-editor", "0.166.0", None),
    ] {
        let mut app = App::builder().uninitialized().script(always("Hi")).start().await;
        initialize(&mut app, name, version).await;
        let thread = app.start_thread().await;
        app.run_turn(&thread, "one").await;
        let params = json!({ "threadId": thread.id, "name": "My thread" });
        app.call::<ThreadNameSet>(from_value(params).unwrap()).await;
        let params = json!({ "threadId": thread.id });
        let forked = app.call::<ThreadFork>(from_value(params).unwrap()).await.thread;
        assert_eq!(forked.name.as_deref(), expected, "{name} {version}");
        app.rest().await;
        app.restart().await;
        initialize(&mut app, name, version).await;
        assert_eq!(app.read(&forked).await.name.as_deref(), expected, "{name} {version}, stored");
    }
}
