//! Permission profiles.

use codicil_protocol::{
    PermissionProfileList, ThreadFork, ThreadResume, ThreadSettingsUpdate, ThreadSettingsUpdated,
    ThreadStart, ThreadStartResponse, TurnStart,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

async fn app(script: Script) -> App {
    App::builder().experimental().script(script).start().await
}

async fn started(app: &mut App, params: Value) -> ThreadStartResponse {
    let started = app.call::<ThreadStart>(from_value(params).unwrap()).await;
    app.rest().await;
    started
}

fn profile(of: &impl serde::Serialize) -> (Value, Value) {
    let of = serde_json::to_value(of).unwrap();
    let policy = if of["sandbox"].is_null() { &of["sandboxPolicy"] } else { &of["sandbox"] };
    (of["activePermissionProfile"]["id"].clone(), policy["type"].clone())
}

#[tokio::test]
async fn a_thread_starts_with_the_requested_profile() {
    let mut app = app(Script::new()).await;
    for (id, policy) in [
        (":read-only", "readOnly"),
        (":workspace", "workspaceWrite"),
        (":danger-full-access", "dangerFullAccess"),
    ] {
        let thread = started(&mut app, json!({ "permissions": id, "approvalPolicy": "untrusted" })).await;
        assert_eq!(profile(&thread), (json!(id), json!(policy)));
        assert_eq!(serde_json::to_value(&thread.approval_policy).unwrap(), "untrusted");
    }
    let without = serde_json::to_value(started(&mut app, json!({})).await).unwrap();
    assert_eq!(without["activePermissionProfile"]["id"], ":read-only", "{without}");
}

#[tokio::test]
async fn the_profile_overrides_the_configured_sandbox() {
    let script =
        Script::new().call("exec_command", json!({ "cmd": "touch made" })).call_id("c").then().say("Ok");
    let config = "sandbox_mode = \"workspace-write\"\n";
    let mut app = App::builder().experimental().config(config).script(script).start().await;
    let params = json!({ "permissions": ":read-only", "approvalPolicy": "never", "cwd": app.workspace() });
    let thread = started(&mut app, params).await.thread;
    app.run_turn(&thread, "make it").await;
    assert!(!app.workspace().join("made").exists());
    app.rest().await;
}

#[tokio::test]
async fn the_configuration_may_name_a_profile() {
    let config = "sandbox_mode = \"danger-full-access\"\ndefault_permissions = \":workspace\"\n";
    let mut app = App::builder().experimental().config(config).script(Script::new()).start().await;
    assert_eq!(profile(&started(&mut app, json!({})).await), (json!(":workspace"), json!("workspaceWrite")));
    let thread = started(&mut app, json!({ "sandbox": "read-only" })).await;
    assert_eq!(profile(&thread), (Value::Null, json!("readOnly")));
    let params = json!({ "config": { "default_permissions": ":nope" } });
    let refused = app.try_call::<ThreadStart>(from_value(params).unwrap()).await.unwrap_err();
    assert_eq!(
        refused.message,
        "failed to load configuration: default_permissions refers to unknown built-in profile `:nope`"
    );
}

#[tokio::test]
async fn unknown_or_conflicting_profiles_are_refused() {
    let mut app = app(Script::new()).await;
    let thread = started(&mut app, json!({})).await.thread;
    let nope = "failed to load configuration: default_permissions refers to unknown built-in profile `:nope`";
    let both = "`permissions` cannot be combined with `sandbox`";
    let policy = "`permissions` cannot be combined with `sandboxPolicy`";
    let input = json!([{ "type": "text", "text": "hi" }]);
    let cases = [
        ("thread/start", json!({ "permissions": ":nope" }), nope),
        ("thread/start", json!({ "permissions": ":workspace", "sandbox": "read-only" }), both),
        ("thread/resume", json!({ "permissions": ":nope" }), nope),
        ("thread/resume", json!({ "permissions": ":workspace", "sandbox": "read-only" }), both),
        ("thread/fork", json!({ "permissions": ":nope" }), nope),
        ("turn/start", json!({ "permissions": ":nope", "input": input }), nope),
        (
            "turn/start",
            json!({ "permissions": ":workspace", "sandboxPolicy": { "type": "readOnly" }, "input": input }),
            policy,
        ),
        ("thread/settings/update", json!({ "permissions": ":nope" }), nope),
    ];
    for (method, mut params, message) in cases {
        params["threadId"] = json!(thread.id);
        let refused = app.exchange(json!({ "id": method, "method": method, "params": params })).await;
        assert_eq!(
            (&refused["error"]["code"], &refused["error"]["message"]),
            (&json!(-32600), &json!(message))
        );
    }
}

#[tokio::test]
async fn a_changed_profile_survives_a_restart() {
    let mut app = app(Script::new().say("1").then().say("2")).await;
    let thread = started(&mut app, json!({ "permissions": ":read-only" })).await.thread;
    let turn = json!({ "threadId": thread.id, "permissions": ":workspace",
        "input": [{ "type": "text", "text": "one" }] });
    app.call::<TurnStart>(from_value(turn).unwrap()).await;
    app.rest().await;
    let same = || from_value(json!({ "threadId": thread.id })).unwrap();
    let workspace = (json!(":workspace"), json!("workspaceWrite"));
    assert_eq!(profile(&app.call::<ThreadResume>(same()).await), workspace);
    let forked = app.call::<ThreadFork>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    assert_eq!(profile(&forked), workspace);

    let update = json!({ "threadId": thread.id, "permissions": ":danger-full-access" });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    let settings = app.until::<ThreadSettingsUpdated>().await.thread_settings;
    assert_eq!(profile(&settings), (json!(":danger-full-access"), json!("dangerFullAccess")));

    app.rest().await;
    app.restart().await;
    let back = app.call::<ThreadResume>(same()).await;
    assert_eq!(profile(&back), (json!(":danger-full-access"), json!("dangerFullAccess")));
    app.rest().await;
    app.restart().await;
    let other = json!({ "threadId": thread.id, "sandbox": "read-only" });
    let other = app.call::<ThreadResume>(from_value(other).unwrap()).await;
    assert_eq!(profile(&other), (Value::Null, json!("readOnly")));
    app.model().push(Script::new());
    app.run_turn(&thread, "two").await;
    app.rest().await;
}

#[tokio::test]
async fn the_profiles_are_listed_page_by_page() {
    let mut app = app(Script::new()).await;
    let page = |value: Value| from_value(value).unwrap();
    let all = app.call::<PermissionProfileList>(page(json!({}))).await;
    let ids: Vec<_> = all.data.iter().map(|profile| profile.id.as_str()).collect();
    assert_eq!(ids, [":read-only", ":workspace", ":danger-full-access"]);
    assert!(all.data.iter().all(|profile| profile.allowed) && all.next_cursor.is_none());
    let two = app.call::<PermissionProfileList>(page(json!({ "limit": 2 }))).await;
    let rest = app.call::<PermissionProfileList>(page(json!({ "cursor": two.next_cursor }))).await;
    assert_eq!((two.data.len(), rest.data.as_slice()), (2, &all.data[2..]));
    let odd = app.try_call::<PermissionProfileList>(page(json!({ "cursor": "x" }))).await;
    assert_eq!(odd.unwrap_err().message, "invalid cursor: x");
}

#[tokio::test]
async fn a_profile_survives_without_a_turn() {
    let mut app = app(Script::new()).await;
    let thread = started(&mut app, json!({ "permissions": ":danger-full-access" })).await.thread;
    app.restart().await;
    let same = from_value(json!({ "threadId": thread.id })).unwrap();
    let back = app.call::<ThreadResume>(same).await;
    assert_eq!(profile(&back), (json!(":danger-full-access"), json!("dangerFullAccess")));
    app.rest().await;
}

const OWN_PROFILES: &str = "
[permissions.mine]
description = \"My own\"
extends = \":workspace\"
[permissions.narrow.filesystem]
\":minimal\" = \"read\"
\":workspace_roots\" = { \".\" = \"write\" }
[permissions.broken.filesystem]
\"/etc\" = \"deny\"
";

#[tokio::test]
async fn profiles_of_the_configuration_are_listed_and_used() {
    let script = Script::new().say("1");
    let mut app = App::builder().experimental().config(OWN_PROFILES).script(script).start().await;
    let listed = app.call::<PermissionProfileList>(from_value(json!({})).unwrap()).await.data;
    let listed: Vec<_> =
        listed.iter().map(|it| (it.id.as_str(), it.description.as_deref(), it.allowed)).collect();
    assert_eq!(
        listed,
        [
            (":read-only", None, true),
            (":workspace", None, true),
            (":danger-full-access", None, true),
            ("broken", None, false),
            ("mine", Some("My own"), true),
            ("narrow", None, true),
        ]
    );
    let mine = started(&mut app, json!({ "permissions": "mine" })).await;
    assert_eq!(profile(&mine), (json!("mine"), json!("workspaceWrite")));
    let active = mine.active_permission_profile.as_ref().unwrap();
    assert_eq!(active.extends.as_deref(), Some(":workspace"));

    let turn = json!({ "threadId": mine.thread.id, "permissions": "narrow",
        "input": [{ "type": "text", "text": "one" }] });
    app.call::<TurnStart>(from_value(turn).unwrap()).await;
    app.rest().await;
    app.restart().await;
    let resume = from_value(json!({ "threadId": mine.thread.id })).unwrap();
    let resumed = serde_json::to_value(app.call::<ThreadResume>(resume).await).unwrap();
    assert_eq!(resumed["activePermissionProfile"], json!({ "id": "narrow", "extends": null }));
    let access = &resumed["sandbox"]["readOnlyAccess"];
    assert_eq!(
        *access,
        json!({ "type": "restricted", "includePlatformDefaults": true, "readableRoots": [] })
    );
    app.rest().await;
}

#[tokio::test]
async fn profiles_that_cannot_be_used_are_refused() {
    let mut app = App::builder().experimental().config(OWN_PROFILES).script(Script::new()).start().await;
    for (id, message) in [
        ("nope", "failed to load configuration: default_permissions refers to undefined profile `nope`"),
        (
            "broken",
            "failed to load configuration: permissions profile `broken` has a rule for `/etc` that this server cannot \
             enforce: `deny` is not supported; leave `:root` out and name what can be read",
        ),
    ] {
        let params = from_value(json!({ "permissions": id })).unwrap();
        assert_eq!(app.try_call::<ThreadStart>(params).await.unwrap_err().message, message);
    }
}
