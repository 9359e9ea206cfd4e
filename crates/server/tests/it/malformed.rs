//! Malformed messages, which are logged and skipped.

use bytes::Bytes;
use codicil_protocol::rpc::RequestId;
use codicil_testkit::App;
use serde_json::json;

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

async fn assert_responds(app: &mut App) {
    let answer = app.exchange(json!({ "id": "alive", "method": "thread/loaded/list" })).await;
    assert_eq!(answer["result"]["data"], json!([]));
}

#[tokio::test]
async fn malformed_lines_are_skipped() {
    let mut app = App::builder().start().await;
    let lines: [&[u8]; 23] = [
        b"this is not json",
        b"{",
        b"}",
        b"[]",
        b"[7,\"thread/loaded/list\",{},0,null,null,null]",
        b"[{\"id\":1,\"method\":\"thread/loaded/list\"}]",
        b"5",
        b"null",
        b"\"text\"",
        b"{}",
        b"{\"id\":77}",
        b"{\"method\":5,\"id\":9}",
        b"{\"method\":null,\"id\":9}",
        b"{\"id\":9,\"method\":\"thread/loaded/list\"",
        b"{\"id\":9,\"method\":\"thread/loaded/list\"}}",
        b"{\"id\":9,\"id\":10,\"method\":\"thread/loaded/list\"}",
        b"{\"id\":9,\"method\":\"thread/loaded/list\"} trailing",
        b"",
        b"   ",
        b"\0\0\0",
        b"\xff\xfe\xfd",
        b"{\"id\":9,\"method\":\"thread/\xffloaded/list\"}",
        b"\xef\xbb\xbf{\"id\":9,\"method\":\"thread/loaded/list\"}",
    ];
    for line in lines {
        app.send_raw(Bytes::from_static(line)).await;
    }
    assert_responds(&mut app).await;
}

#[tokio::test]
async fn deep_nesting_is_an_error_everywhere() {
    let mut app = App::builder().start().await;
    let deep = nested(100_000);
    let objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let unanswered = [
        deep.clone(),
        objects.clone(),
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        format!(r#"{{"id":{deep},"method":"thread/loaded/list"}}"#),
        format!(r#"{{"id":1,"method":{deep}}}"#),
        format!(r#"{{"id":1,"result":{deep}}}"#),
        format!(r#"{{"id":1,"error":{{"code":1,"message":"m","data":{objects}}}}}"#),
        format!(r#"{{"method":"initialized","params":{objects}}}"#),
    ];
    for message in unanswered {
        app.send_raw(message).await;
    }
    assert_responds(&mut app).await;

    for (method, params) in [
        ("thread/loaded/list", deep.clone()),
        ("thread/loaded/list", objects.clone()),
        ("thread/loaded/list", format!(r#"{{"cursor":{deep}}}"#)),
        ("thread/start", format!(r#"{{"config":{objects}}}"#)),
        ("turn/start", format!(r#"{{"threadId":"t","input":[{{"type":{deep}}}]}}"#)),
        ("turn/start", format!(r#"{{"threadId":"t","input":[{{"type":"video","x":{deep}}}]}}"#)),
        ("turn/start", format!(r#"{{"threadId":"t","input":[],"outputSchema":{objects}}}"#)),
        ("account/logout", deep.clone()),
        ("no/such/method", objects.clone()),
    ] {
        let message = format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
        let answer = app.exchange_raw(RequestId::Integer(1), message).await;
        let code = answer["error"]["code"].as_i64();
        assert!(answer.get("result").is_some() || matches!(code, Some(-32600 | -32603)), "{answer:.200}");
    }
    assert_responds(&mut app).await;
    app.ignore_rest();
}

#[tokio::test]
async fn a_message_of_several_megabytes_is_accepted() {
    let mut app = App::builder().experimental().start().await;
    let value = "ü".repeat(4 << 20);
    let request = json!({ "id": 1, "method": "mock/experimentalMethod", "params": { "value": value } });
    assert_eq!(app.exchange(request).await["result"]["echoed"], value);
    assert_responds(&mut app).await;
}
