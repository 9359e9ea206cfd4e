//! The permissions of resumed and forked threads: the last ones, and never more.

use std::fs;

use codicil_protocol::{
    ReviewStart, SandboxPolicy, Thread, ThreadFork, ThreadId, ThreadResume, ThreadRollback,
    ThreadSettingsUpdate, ThreadSettingsUpdated, ThreadStart, ThreadUnsubscribe, TurnCompleted, TurnStart,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

const READ_ONLY: &str = "readOnly";
const WORKSPACE: &str = "workspaceWrite";
const FULL: &str = "dangerFullAccess";

/// Starts a server whose workspace is a trusted project, where threads may write by default.
async fn trusted(script: Script) -> App {
    let app = App::builder().experimental().script(script).start().await;
    let file = app.home().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    let project = format!("\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n", app.workspace().display());
    fs::write(file, config + &project).unwrap();
    app
}

/// Starts a thread in the workspace, with more params.
async fn start(app: &mut App, mut params: Value) -> Thread {
    params["cwd"] = json!(app.workspace());
    let started = app.call::<ThreadStart>(from_value(params).unwrap()).await;
    app.rest().await;
    started.thread
}

/// Returns the sandbox, the approval policy and the reviewer of a response.
fn permissions(answer: &impl serde::Serialize) -> (String, String, String) {
    let answer = serde_json::to_value(answer).unwrap();
    let sandbox = if answer["sandbox"].is_null() { &answer["sandboxPolicy"] } else { &answer["sandbox"] };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&sandbox["type"]), text(&answer["approvalPolicy"]), text(&answer["approvalsReviewer"]))
}

fn have(sandbox: &str, approvals: &str, reviewer: &str) -> (String, String, String) {
    (sandbox.to_owned(), approvals.to_owned(), reviewer.to_owned())
}

/// Params of the newest clients, which send every permission as null.
fn nulls(thread: &ThreadId) -> Value {
    json!({ "threadId": thread, "sandbox": null, "approvalPolicy": null, "approvalsReviewer": null,
        "permissions": null, "config": { "sandbox_mode": null, "approval_policy": null } })
}

async fn resume(app: &mut App, params: Value) -> (String, String, String) {
    let answer = app.call::<ThreadResume>(from_value(params).unwrap()).await;
    app.rest().await;
    permissions(&answer)
}

async fn fork(app: &mut App, params: Value) -> (Thread, (String, String, String)) {
    let answer = app.call::<ThreadFork>(from_value(params).unwrap()).await;
    app.rest().await;
    (answer.thread.clone(), permissions(&answer))
}

fn touch(call: &str) -> Script {
    Script::new().call("exec_command", json!({ "cmd": "touch made" })).call_id(call).then().say("Ok")
}

/// Runs `touch` in a turn and returns whether the file exists.
async fn writes(app: &mut App, thread: &Thread) -> bool {
    app.model().push(touch("touch"));
    app.run_turn(thread, "make it").await;
    app.rest().await;
    let made = app.workspace().join("made");
    let is_made = made.exists();
    let _ = fs::remove_file(made);
    is_made
}

async fn strict(app: &mut App) -> Thread {
    let params = json!({ "sandbox": "read-only", "approvalPolicy": "never",
        "approvalsReviewer": "guardian_subagent" });
    start(app, params).await
}

fn strict_permissions() -> (String, String, String) {
    have(READ_ONLY, "never", "guardian_subagent")
}

#[tokio::test]
async fn a_fork_of_a_read_only_thread_cannot_write() {
    let mut app = trusted(Script::new()).await;
    let thread = strict(&mut app).await;
    assert!(!writes(&mut app, &thread).await);
    let (forked, permissions) = fork(&mut app, nulls(&thread.id)).await;
    assert_eq!(permissions, strict_permissions());
    assert!(!writes(&mut app, &forked).await);

    app.restart().await;
    let (again, permissions) = fork(&mut app, nulls(&forked.id)).await;
    assert_eq!(permissions, strict_permissions());
    assert!(!writes(&mut app, &again).await);
    let absent = json!({ "threadId": again.id, "ephemeral": true });
    let (ephemeral, permissions) = fork(&mut app, absent).await;
    assert_eq!(permissions, strict_permissions());
    assert!(!writes(&mut app, &ephemeral).await);
    let usual = start(&mut app, json!({})).await;
    assert!(writes(&mut app, &usual).await, "threads may write here by default");
    let named = json!({ "threadId": again.id, "sandbox": "workspace-write" });
    let (named, permissions) = fork(&mut app, named).await;
    assert_eq!(permissions, have(WORKSPACE, "never", "guardian_subagent"));
    assert!(writes(&mut app, &named).await);
}

#[tokio::test]
async fn a_resumed_thread_keeps_its_permissions_even_without_turns() {
    let mut app = trusted(Script::new()).await;
    let thread = strict(&mut app).await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, strict_permissions(), "while it is loaded");
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, strict_permissions(), "after a restart");
    assert!(!writes(&mut app, &thread).await);
    app.call::<ThreadUnsubscribe>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    app.rest().await;
    assert_eq!(resume(&mut app, json!({ "threadId": thread.id })).await, strict_permissions(), "unloaded");
}

#[tokio::test]
async fn permissions_of_a_request_apply_and_are_stored_with_the_next_turn() {
    let mut app = trusted(Script::new().say("done")).await;
    let thread = strict(&mut app).await;
    app.restart().await;
    let named = || {
        json!({ "threadId": thread.id, "sandbox": "danger-full-access",
        "config": { "approval_policy": "untrusted" } })
    };
    let expected = have(FULL, "untrusted", "guardian_subagent");
    assert_eq!(resume(&mut app, named()).await, expected);
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, strict_permissions(), "no turn ran with it");
    app.restart().await;
    assert_eq!(resume(&mut app, named()).await, expected);
    app.run_turn(&thread, "go").await;
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, expected, "full access is inherited too");
}

#[tokio::test]
async fn a_thread_keeps_the_permissions_of_its_last_turn_or_update() {
    let mut app = trusted(Script::new().say("1").then().say("2")).await;
    let thread = start(&mut app, json!({})).await;
    let policy = json!({ "type": "workspaceWrite", "writableRoots": ["/srv/data"], "networkAccess": true,
        "excludeSlashTmp": true, "excludeTmpdirEnvVar": true,
        "readOnlyAccess": { "type": "restricted", "includePlatformDefaults": true, "readableRoots": ["/usr"] } });
    let turn = json!({ "threadId": thread.id, "sandboxPolicy": policy, "approvalPolicy": "never",
        "input": [{ "type": "text", "text": "one" }] });
    app.call::<TurnStart>(from_value(turn).unwrap()).await;
    app.until::<TurnCompleted>().await;
    app.rest().await;
    let whole: SandboxPolicy = from_value(policy).unwrap();
    let forked = app.call::<ThreadFork>(from_value(nulls(&thread.id)).unwrap()).await;
    assert_eq!(forked.sandbox, whole, "with its roots");
    app.rest().await;
    app.restart().await;
    let resumed = app.call::<ThreadResume>(from_value(nulls(&thread.id)).unwrap()).await;
    assert_eq!((&resumed.sandbox, permissions(&resumed).1.as_str()), (&whole, "never"));
    app.rest().await;

    let update = json!({ "threadId": thread.id, "sandboxPolicy": { "type": "readOnly" } });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    app.until::<ThreadSettingsUpdated>().await;
    let (_, forked) = fork(&mut app, nulls(&thread.id)).await;
    assert_eq!(forked, have(READ_ONLY, "never", "user"));
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, have(READ_ONLY, "never", "user"));
    // Rolling the turn back removes its messages, but not the permissions.
    app.call::<ThreadRollback>(from_value(json!({ "threadId": thread.id, "numTurns": 1 })).unwrap()).await;
    app.rest().await;
    let (_, forked) = fork(&mut app, nulls(&thread.id)).await;
    assert_eq!(forked, have(READ_ONLY, "never", "user"));
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, have(READ_ONLY, "never", "user"));
    app.run_turn(&thread, "two").await;
    app.rest().await;
}

#[tokio::test]
async fn permissions_set_during_a_turn_apply_to_its_fork() {
    let mut app = trusted(Script::new().gate("held").say("1")).await;
    let thread = start(&mut app, json!({ "sandbox": "danger-full-access" })).await;
    app.start_turn(&thread, "one").await;
    app.model().reached("held").await;
    let update = json!({ "threadId": thread.id, "sandboxPolicy": { "type": "readOnly" },
        "approvalPolicy": "never" });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    let forked = app.call::<ThreadFork>(from_value(nulls(&thread.id)).unwrap()).await;
    assert_eq!(permissions(&forked), have(READ_ONLY, "never", "user"));
    app.model().release("held");
    app.until::<TurnCompleted>().await;
    app.rest().await;
    app.restart().await;
    assert_eq!(resume(&mut app, nulls(&thread.id)).await, have(READ_ONLY, "never", "user"));
}

#[tokio::test]
async fn a_fork_at_a_turn_has_the_permissions_of_its_source() {
    let mut app = trusted(Script::new().say("1").then().say("2")).await;
    let thread = start(&mut app, json!({})).await;
    let first = app.run_turn(&thread, "one").await;
    let turn = json!({ "threadId": thread.id, "sandboxPolicy": { "type": "readOnly" },
        "approvalPolicy": "never", "input": [{ "type": "text", "text": "two" }] });
    let second = app.call::<TurnStart>(from_value(turn).unwrap()).await.turn;
    app.until::<TurnCompleted>().await;
    app.rest().await;
    for point in [json!({ "lastTurnId": first.id }), json!({ "beforeTurnId": second.id })] {
        let mut params = nulls(&thread.id);
        params.as_object_mut().unwrap().extend(point.as_object().unwrap().clone());
        let (forked, permissions) = fork(&mut app, params).await;
        assert_eq!(permissions, have(READ_ONLY, "never", "user"), "{point}");
        app.restart().await;
        assert_eq!(resume(&mut app, nulls(&forked.id)).await, have(READ_ONLY, "never", "user"));
    }
}

#[tokio::test]
async fn a_detached_review_cannot_write() {
    let mut app = trusted(Script::new()).await;
    let thread = strict(&mut app).await;
    app.model().push(touch("touch"));
    let params = json!({ "threadId": thread.id, "delivery": "detached",
        "target": { "type": "custom", "instructions": "look" } });
    let review = app.call::<ReviewStart>(from_value(params).unwrap()).await;
    app.until::<TurnCompleted>().await;
    app.rest().await;
    assert!(!app.workspace().join("made").exists());
    assert_ne!(review.review_thread_id, thread.id);
    assert_eq!(resume(&mut app, nulls(&review.review_thread_id)).await, strict_permissions());
}

#[tokio::test]
async fn requirements_override_stored_permissions() {
    let mut app = trusted(Script::new()).await;
    let full = start(&mut app, json!({ "sandbox": "danger-full-access", "approvalPolicy": "never" })).await;
    let profile = start(&mut app, json!({ "permissions": ":danger-full-access" })).await;
    let write = start(&mut app, json!({ "sandbox": "workspace-write" })).await;
    app.restart().await;
    let rules = "allowed_approval_policies = [\"untrusted\", \"on-request\"]\n\
        allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    fs::write(app.home().join("requirements.toml"), rules).unwrap();
    for (thread, approvals) in [(&full, "on-request"), (&profile, "on-request")] {
        let (_, forked) = fork(&mut app, nulls(&thread.id)).await;
        assert_eq!(forked, have(WORKSPACE, approvals, "user"));
        assert_eq!(resume(&mut app, nulls(&thread.id)).await, have(WORKSPACE, approvals, "user"));
    }
    app.restart().await;
    fs::write(app.home().join("requirements.toml"), "allowed_sandbox_modes = [\"danger-full-access\"]\n")
        .unwrap();
    let (_, forked) = fork(&mut app, nulls(&write.id)).await;
    assert_eq!(forked.0, READ_ONLY, "not the wider policy that would be allowed");
}

/// Removes or rewrites the settings records in the file of a thread.
fn rewrite(thread: &Thread, change: impl Fn(&mut Value) -> bool) {
    let path = thread.path.as_ref().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let keeps = line["type"] != "settings" || change(&mut line);
        keeps.then(|| line.to_string() + "\n")
    });
    fs::write(path, lines.collect::<String>()).unwrap();
}

#[tokio::test]
async fn a_thread_of_an_earlier_version_has_at_most_the_configured_permissions() {
    let mut app = trusted(Script::new()).await;
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(strict(&mut app).await);
    }
    let [without, partial, later] = &threads[..] else { panic!() };
    app.restart().await;
    rewrite(without, |_| false);
    rewrite(partial, |line| {
        let settings = line["snapshot"]["settings"].as_object_mut().unwrap();
        settings.retain(|name, _| name == "sandbox");
        true
    });
    rewrite(later, |line| {
        line["snapshot"]["settings"]["sandbox"] = json!({ "type": "fromTheFuture" });
        line["snapshot"]["settings"]["approvalPolicy"] = json!("from-the-future");
        true
    });
    for (thread, expected) in [
        (without, have(WORKSPACE, "on-request", "user")),
        (partial, have(READ_ONLY, "on-request", "user")),
        (later, have(READ_ONLY, "untrusted", "guardian_subagent")),
    ] {
        let (_, forked) = fork(&mut app, nulls(&thread.id)).await;
        assert_eq!(forked, expected);
        assert_eq!(resume(&mut app, nulls(&thread.id)).await, expected);
    }
}

#[tokio::test]
async fn a_request_may_change_details_of_a_writable_workspace() {
    let mut app = trusted(Script::new()).await;
    let write = start(&mut app, json!({ "sandbox": "workspace-write" })).await;
    let read = start(&mut app, json!({ "sandbox": "read-only" })).await;
    app.restart().await;
    let details = |thread: &Thread| {
        let mut params = nulls(&thread.id);
        params["config"] = json!({ "sandbox_workspace_write": { "network_access": true } });
        params
    };
    let forked = app.call::<ThreadFork>(from_value(details(&write)).unwrap()).await;
    assert!(matches!(forked.sandbox, SandboxPolicy::WorkspaceWrite { network_access: true, .. }));
    let forked = app.call::<ThreadFork>(from_value(details(&read)).unwrap()).await;
    assert!(matches!(forked.sandbox, SandboxPolicy::ReadOnly { network_access: false, .. }));
    app.rest().await;
}
