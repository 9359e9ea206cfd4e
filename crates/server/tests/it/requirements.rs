//! Requirements of an administrator and settings of providers, and their effect on threads.

use std::fs;

use codicil_protocol::{
    AccountLoginStart, ApprovalsReviewer, AskForApproval, ConfigBatchWrite, LoginAccountParams, SandboxMode,
    SandboxPolicy, ThreadStart, ThreadStartParams, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

const REQUIREMENTS: &str = "allowed_approval_policies = [\"untrusted\", \"on-request\"]\n\
    allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";

async fn app() -> App {
    let app = App::start(Script::new()).await;
    fs::write(app.home().join("requirements.toml"), REQUIREMENTS).unwrap();
    app
}

async fn refused(app: &mut App, method: &str, params: Value) -> String {
    let answer = app.exchange(json!({ "id": "x", "method": method, "params": params })).await;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_thread_cannot_start_with_forbidden_values() {
    let mut app = app().await;
    let never = refused(&mut app, "thread/start", json!({ "approvalPolicy": "never" })).await;
    assert!(never.contains("`approval_policy` may not be `never`"), "{never}");
    assert!(never.contains("requirements.toml allows `untrusted`, `on-request`"), "{never}");
    let full = refused(&mut app, "thread/start", json!({ "sandbox": "danger-full-access" })).await;
    assert!(full.contains("`sandbox_mode` may not be `danger-full-access`"), "{full}");
    let external = json!({ "sandbox": { "type": "externalSandbox", "networkAccess": "enabled" } });
    let external = refused(&mut app, "thread/start", external).await;
    assert!(external.contains("`sandbox_mode` may not be `danger-full-access`"), "{external}");
    let allowed = ThreadStartParams {
        approval_policy: Some(AskForApproval::Untrusted),
        sandbox: Some(SandboxMode::WorkspaceWrite.into()),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        ..ThreadStartParams::default()
    };
    let started = app.call::<ThreadStart>(allowed).await;
    assert!(matches!(started.sandbox, SandboxPolicy::WorkspaceWrite { .. }));
    app.ignore_rest();
}

#[tokio::test]
async fn a_configured_value_that_is_forbidden_becomes_an_allowed_one() {
    let mut app = app().await;
    let config = json!({ "approval_policy": "never", "sandbox_mode": "danger-full-access" });
    let params = ThreadStartParams { config: config.as_object().cloned(), ..ThreadStartParams::default() };
    let started = app.call::<ThreadStart>(params).await;
    assert_eq!(started.approval_policy, AskForApproval::Untrusted);
    assert!(matches!(started.sandbox, SandboxPolicy::WorkspaceWrite { .. }), "{:?}", started.sandbox);
    app.ignore_rest();
}

#[tokio::test]
async fn a_turn_cannot_use_forbidden_values() {
    let mut app = app().await;
    let thread = app.start_thread().await;
    let input = json!([{ "type": "text", "text": "Hi" }]);
    for (field, value) in [
        ("approvalPolicy", json!("never")),
        ("sandboxPolicy", json!({ "type": "dangerFullAccess" })),
        ("sandboxPolicy", json!({ "type": "externalSandbox" })),
    ] {
        let params = json!({ "threadId": thread.id, "input": input, field: value });
        let message = refused(&mut app, "turn/start", params).await;
        assert!(message.contains("may not be"), "{message}");
    }
    // The thread goes on with its earlier settings.
    app.model().push(Script::new().say("Hello"));
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Completed);
    app.ignore_rest();
}

#[tokio::test]
async fn the_defaults_depend_on_the_trust_level_of_the_project() {
    let mut app = App::start(Script::new()).await;
    let workspace = app.workspace().display().to_string();
    let file = app.home().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    for (level, policy, sandbox) in [
        (None, "on-request", "readOnly"),
        (Some("trusted"), "on-request", "workspaceWrite"),
        (Some("untrusted"), "untrusted", "workspaceWrite"),
    ] {
        let said = level.map(|level| format!("\n[projects.\"{workspace}\"]\ntrust_level = \"{level}\"\n"));
        fs::write(&file, config.clone() + &said.unwrap_or_default()).unwrap();
        let start = json!({ "id": 1, "method": "thread/start", "params": { "cwd": workspace } });
        let answer = app.exchange(start).await;
        assert_eq!(answer["result"]["approvalPolicy"], policy, "{answer}");
        assert_eq!(answer["result"]["sandbox"]["type"], sandbox, "{answer}");
    }
    fs::write(app.home().join("requirements.toml"), "allowed_sandbox_modes = [\"read-only\"]\n").unwrap();
    let start = json!({ "id": 1, "method": "thread/start", "params": { "cwd": workspace } });
    assert_eq!(app.exchange(start).await["result"]["sandbox"]["type"], "readOnly");
    app.ignore_rest();
}

#[tokio::test]
async fn a_loaded_thread_applies_a_change_after_a_reload() {
    let mut app = App::start(Script::new().say("One").say("Two")).await;
    let thread = app.start_thread().await;
    for (words, reload, expected) in [("Sing", None, false), ("Whistle", Some(true), true)] {
        let edits = json!([{ "keyPath": "instructions", "value": words, "mergeStrategy": "replace" }]);
        let params = json!({ "edits": edits, "reloadUserConfig": reload });
        app.call::<ConfigBatchWrite>(serde_json::from_value(params).unwrap()).await;
        app.run_turn(&thread, "Hi").await;
        let request = app.model().requests().pop().unwrap();
        let instructions = request.body()["instructions"].as_str().unwrap_or_default().to_owned();
        assert_eq!(instructions.contains(words), expected, "{instructions}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_sandbox_policy_is_accepted_in_place_of_a_mode() {
    let mut app = App::start(Script::new()).await;
    let params =
        json!({ "id": 1, "method": "thread/start", "params": { "sandbox": { "type": "workspaceWrite" } } });
    let answer = app.exchange(params).await;
    assert_eq!(answer["result"]["sandbox"]["type"], "workspaceWrite", "{answer}");
    for (sandbox, words) in [(json!({}), "missing field `type`"), (json!("bogus"), "unknown variant `bogus`")]
    {
        let message = refused(&mut app, "thread/start", json!({ "sandbox": sandbox })).await;
        assert!(message.starts_with("Invalid request: ") && message.contains(words), "{message}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn the_base_url_of_the_builtin_provider_can_be_changed() {
    let mut app = App::start(Script::new().say("Hello")).await;
    let key = LoginAccountParams::ApiKey { api_key: "sk-1".to_owned().into() };
    app.call::<AccountLoginStart>(key).await;
    let config = json!({ "openai_base_url": app.model().base_url() });
    let params = ThreadStartParams {
        model_provider: Some("openai".to_owned()),
        config: config.as_object().cloned(),
        ..ThreadStartParams::default()
    };
    let thread = app.start_thread_with(params).await;
    app.run_turn(&thread, "Hi").await;
    let requests = app.model().requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-1"));
    assert!(requests[0].path().ends_with("/responses"));
    app.ignore_rest();
}
