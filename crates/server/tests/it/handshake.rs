//! `initialize`: once per connection, before all other requests.

use codicil_protocol::{
    Initialize, Initialized, ThreadLoadedList, ThreadStart, ThreadStarted, rpc::RequestId,
};
use codicil_testkit::App;
use serde_json::{Value, json};

fn hello(id: i64) -> Value {
    json!({ "id": id, "method": "initialize", "params": { "clientInfo": { "name": "x", "version": "1" } } })
}

fn list(id: i64) -> Value {
    json!({ "id": id, "method": "thread/loaded/list", "params": {} })
}

fn refused(id: i64, message: &str) -> Value {
    json!({ "error": { "code": -32600, "message": message }, "id": id })
}

#[tokio::test]
async fn initialize_returns_the_user_agent_and_the_home() {
    let mut app = App::builder().uninitialized().start().await;
    let hello = json!({ "clientInfo": { "name": "my-editor", "title": null, "version": "9.8" } });
    let answer = app.call::<Initialize>(serde_json::from_value(hello).unwrap()).await;
    assert_eq!(&*answer.codex_home, app.home());
    assert_eq!(answer.platform_family, std::env::consts::FAMILY);
    assert_eq!(answer.platform_os, std::env::consts::OS);
    let agent = &answer.user_agent;
    assert!(agent.starts_with("my-editor/0.118.0 ("), "{agent}");
    assert!(agent.ends_with(" (my-editor; 9.8)"), "{agent}");
}

#[tokio::test]
async fn requests_before_initialize_are_refused() {
    let mut app = App::builder().uninitialized().start().await;
    for method in ["thread/list", "thread/start", "mock/experimentalMethod", "account/logout"] {
        let answer = app.exchange(json!({ "id": 1, "method": method, "params": {} })).await;
        assert_eq!(answer, refused(1, "Not initialized"), "{method}");
    }
    assert!(app.exchange(hello(2)).await.get("result").is_some());
    assert!(app.exchange(list(3)).await.get("result").is_some());
}

#[tokio::test]
async fn params_are_checked_before_initialization() {
    let mut app = App::builder().uninitialized().start().await;
    let answer = app.exchange(json!({ "id": 1, "method": "thread/start", "params": { "cwd": 5 } })).await;
    let reason = "Invalid request: invalid type: integer `5`, expected a string";
    assert_eq!(answer, refused(1, reason));
}

#[tokio::test]
async fn messages_before_initialize_are_limited() {
    let mut app = App::builder().uninitialized().start().await;
    let padding = " ".repeat(1 << 20);
    let long = |id: u32| format!(r#"{{"id":{id},{padding}"method":"thread/list","params":{{}}}}"#);
    app.send_raw(long(1)).await;
    assert!(app.exchange(hello(2)).await.get("result").is_some(), "the first was skipped");
    let answer = app.exchange_raw(RequestId::Integer(3), long(3)).await;
    assert!(answer.get("result").is_some(), "{answer}");
}

#[tokio::test]
async fn a_second_initialize_is_refused() {
    let mut app = App::builder().start().await;
    assert_eq!(app.exchange(hello(50)).await, refused(50, "Already initialized"));
    app.call::<ThreadLoadedList>(Default::default()).await;
}

#[tokio::test]
async fn a_failed_initialize_can_be_repeated() {
    let mut app = App::builder().uninitialized().start().await;
    let name = json!({ "name": "x", "version": "1" });
    for (params, reason) in [
        (Value::Null, "missing field `params`"),
        (json!({}), "missing field `clientInfo`"),
        (json!({ "clientInfo": { "name": "x" } }), "missing field `version`"),
        (
            json!({ "clientInfo": { "name": 5, "version": "1" } }),
            "invalid type: integer `5`, expected a string",
        ),
        (
            json!({ "clientInfo": name, "capabilities": { "experimentalApi": "yes" } }),
            "invalid type: string \"yes\", expected a boolean",
        ),
        (
            json!({ "clientInfo": name, "capabilities": { "optOutNotificationMethods": "thread/started" } }),
            "invalid type: string \"thread/started\", expected a sequence",
        ),
    ] {
        let answer = app.exchange(json!({ "id": 1, "method": "initialize", "params": params })).await;
        assert_eq!(answer, refused(1, &format!("Invalid request: {reason}")), "{params}");
    }
    assert!(app.exchange(hello(2)).await.get("result").is_some());
}

#[tokio::test]
async fn the_initialized_notification_is_optional() {
    let mut app = App::builder().uninitialized().start().await;
    app.notify::<Initialized>(Default::default()).await;
    assert_eq!(app.exchange(list(1)).await, refused(1, "Not initialized"));
    app.exchange(hello(2)).await;
    assert!(app.exchange(list(3)).await.get("result").is_some());
    app.send_raw(r#"{"method":"initialized"}"#).await;
    app.send_raw(r#"{"method":"initialized","params":null}"#).await;
    assert!(app.exchange(list(4)).await.get("result").is_some());
}

#[tokio::test]
async fn capabilities_may_be_null_or_have_unknown_members() {
    for capabilities in [Value::Null, json!({}), json!({ "optOutNotificationMethods": null, "later": [1] })] {
        let mut app = App::builder().uninitialized().start().await;
        let params = json!({ "clientInfo": { "name": "x", "version": "1" }, "capabilities": capabilities });
        app.exchange(json!({ "id": 1, "method": "initialize", "params": params })).await;
        let answer =
            app.exchange(json!({ "id": 2, "method": "mock/experimentalMethod", "params": {} })).await;
        let gate = "mock/experimentalMethod requires experimentalApi capability";
        assert_eq!(answer, refused(2, gate), "{capabilities}");
    }
}

#[tokio::test]
async fn each_connection_is_initialized_separately() {
    let mut app = App::builder().uninitialized().start().await;
    let mut other = app.another_client().await;
    app.exchange(hello(1)).await;
    assert_eq!(other.exchange(list(1)).await, refused(1, "Not initialized"));
    other.exchange(hello(2)).await;
    assert!(other.exchange(list(3)).await.get("result").is_some());
}

#[tokio::test]
async fn only_the_notifications_a_client_opted_out_of_are_left_out() {
    let mut app = App::builder().opt_out(["thread/started", "turn/*", "THREAD/STATUS/CHANGED"]).start().await;
    let mut other = App::builder().start().await;
    for app in [&mut app, &mut other] {
        app.call::<ThreadStart>(Default::default()).await;
    }
    assert!(!app.rest().await.contains("thread/started"));
    other.take::<ThreadStarted>().await;
    other.rest().await;
}
