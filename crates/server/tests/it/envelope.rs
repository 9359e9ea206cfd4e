//! Ids, methods and the form of responses.

use codicil_protocol::{CLIENT_REQUESTS, OLDER_REQUESTS, rpc::RequestId};
use codicil_testkit::App;
use serde_json::{Value, json};

fn empty_list(id: Value) -> Value {
    json!({ "id": id, "result": { "data": [], "nextCursor": null } })
}

#[tokio::test]
async fn responses_repeat_the_id_of_the_request() {
    let mut app = App::builder().start().await;
    for id in [
        json!("a string id"),
        json!(""),
        json!("5"),
        json!("\"quoted\" \u{1F600}\n"),
        json!(0),
        json!(5),
        json!(-7),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
        json!(i64::MIN),
    ] {
        let request = json!({ "id": id, "method": "thread/loaded/list", "params": {} });
        assert_eq!(app.exchange(request).await, empty_list(id));
    }
}

#[tokio::test]
async fn a_request_with_an_invalid_id_gets_no_response() {
    let mut app = App::builder().start().await;
    for id in ["null", "1.5", "true", "[]", "{}", "1e3", "9223372036854775808"] {
        app.send_raw(format!(r#"{{"id":{id},"method":"thread/loaded/list","params":{{}}}}"#)).await;
    }
    let request = json!({ "id": "last", "method": "thread/loaded/list" });
    assert_eq!(app.exchange(request).await, empty_list(json!("last")));
}

#[tokio::test]
async fn the_jsonrpc_member_is_accepted_and_not_sent() {
    let mut app = App::builder().start().await;
    for version in [json!("2.0"), json!("1.0"), json!(2), Value::Null] {
        let request = json!({ "jsonrpc": version, "id": 1, "method": "thread/loaded/list", "trace": {} });
        assert_eq!(app.exchange(request).await, empty_list(json!(1)));
    }
}

#[tokio::test]
async fn members_may_come_in_any_order() {
    let mut app = App::builder().experimental().start().await;
    let message = r#" {"params":{"value":"v"},"method":"mock/experimentalMethod","id":7} "#;
    let answer = app.exchange_raw(RequestId::Integer(7), message).await;
    assert_eq!(answer["result"]["echoed"], "v");
}

#[tokio::test]
async fn a_method_without_a_route_gets_one_sentence() {
    let mut app = App::builder().start().await;
    let mut check = async |method: &str, sentence: &str, reason: &str| {
        let answer = app.exchange(json!({ "id": 1, "method": method, "params": {} })).await;
        let message = format!("Invalid request: unknown variant `{method}`: {sentence}");
        assert_eq!(
            answer["error"],
            json!({ "code": -32600, "message": message, "data": { "reason": reason } })
        );
    };
    for method in ["bogus/method", "thread/start/now", "", "Thread/Start", "thread/started", "initialized"] {
        check(method, "there is no such method", "unknownMethod").await;
    }
    let refused = CLIENT_REQUESTS.iter().filter(|method| !method.is_served).map(|method| method.name);
    for method in refused.chain(OLDER_REQUESTS.iter().copied()) {
        check(method, "this server does not serve that method", "methodNotServed").await;
    }
}

#[tokio::test]
async fn notifications_and_unexpected_responses_are_ignored() {
    let mut app = App::builder().start().await;
    for message in [
        json!({ "method": "bogus/notification", "params": { "a": 1 } }),
        json!({ "method": "bogus/notification" }),
        json!({ "method": "thread/start", "params": {} }),
        json!({ "id": 0, "result": {} }),
        json!({ "id": 0, "result": null }),
        json!({ "id": "x", "error": { "code": -1, "message": "no" } }),
    ] {
        app.send_raw(message.to_string()).await;
    }
    let request = json!({ "id": 1, "method": "thread/loaded/list" });
    assert_eq!(app.exchange(request).await, empty_list(json!(1)), "no thread was started");
}
