//! Params that are missing, null, invalid or unknown.

use codicil_testkit::App;
use serde_json::{Value, json};

use crate::NO_THREAD;

#[tokio::test]
async fn missing_null_and_empty_params_are_the_same() {
    let mut app = App::builder().experimental().start().await;
    let methods = [
        "thread/loaded/list",
        "thread/list",
        "mock/experimentalMethod",
        "thread/read",
        "turn/start",
        "account/logout",
        "configRequirements/read",
        "permissionProfile/list",
    ];
    for method in methods {
        let missing = app.exchange(json!({ "id": 1, "method": method })).await;
        let null = app.exchange(json!({ "id": 1, "method": method, "params": null })).await;
        assert_eq!(missing, null, "{method}");
        let empty = app.exchange(json!({ "id": 1, "method": method, "params": {} })).await;
        assert_eq!(missing.get("error").is_some(), empty.get("error").is_some(), "{method}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn methods_without_params_accept_only_objects() {
    let mut app = App::builder().start().await;
    for method in
        ["account/logout", "account/rateLimits/read", "configRequirements/read", "config/mcpServer/reload"]
    {
        for params in [Value::Null, json!({}), json!({ "a": 1 }), json!([]), json!(5)] {
            let answer = app.exchange(json!({ "id": 1, "method": method, "params": params })).await;
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            let taken = params.is_null() || params.is_object();
            assert_eq!(!message.starts_with("Invalid request"), taken, "{method} {params}: {message}");
        }
    }
    app.ignore_rest();
}

#[tokio::test]
async fn invalid_params_are_refused_with_the_reason() {
    let mut app = App::builder().experimental().start().await;
    let t = NO_THREAD;
    for (method, params, reason) in [
        ("thread/start", json!({ "cwd": 5 }), "invalid type: integer `5`, expected a string"),
        (
            "thread/start",
            json!({ "approvalPolicy": "sometimes" }),
            "unknown variant `sometimes`, expected one of `untrusted`, `on-failure`, `on-request`, `granular`, \
             `never`",
        ),
        ("thread/start", json!({ "ephemeral": "yes" }), "invalid type: string \"yes\", expected a boolean"),
        ("thread/read", json!({}), "missing field `threadId`"),
        ("thread/read", Value::Null, "missing field `params`"),
        ("thread/list", json!({ "limit": -1 }), "invalid value: integer `-1`, expected u32"),
        ("thread/list", json!({ "limit": "ten" }), "invalid type: string \"ten\", expected u32"),
        (
            "thread/list",
            json!({ "sortKey": "name" }),
            "unknown variant `name`, expected `created_at` or `updated_at`",
        ),
        (
            "turn/start",
            json!({ "threadId": t, "input": [], "cwd": 5 }),
            "invalid type: integer `5`, expected path string",
        ),
        ("skills/list", json!({ "cwds": [5] }), "invalid type: integer `5`, expected path string"),
        (
            "command/exec",
            json!({ "command": ["true"], "outputBytesCap": -1 }),
            "invalid value: integer `-1`, expected usize",
        ),
        ("turn/start", json!({ "threadId": t }), "missing field `input`"),
        (
            "turn/start",
            json!({ "threadId": t, "input": "hello" }),
            "invalid type: string \"hello\", expected a sequence",
        ),
        (
            "turn/start",
            json!({ "threadId": t, "input": [{ "type": "video" }] }),
            "unknown variant `video`, expected one of `text`, `image`, `localImage`, `skill`, `mention`",
        ),
        ("turn/start", json!({ "threadId": t, "input": [{ "text": "no type" }] }), "missing field `type`"),
        ("turn/steer", json!({ "threadId": t, "input": [] }), "missing field `expectedTurnId`"),
        ("command/exec", json!({ "command": "ls" }), "invalid type: string \"ls\", expected a sequence"),
        ("fs/readFile", json!({ "path": 1 }), "invalid type: integer `1`, expected path string"),
        ("fs/readFile", json!({ "path": "a/b" }), "AbsolutePathBuf deserialized without a base path"),
        (
            "thread/rollback",
            json!({ "threadId": t, "numTurns": "one" }),
            "invalid type: string \"one\", expected u32",
        ),
    ] {
        let answer = app.exchange(json!({ "id": 1, "method": method, "params": params })).await;
        let expected = json!({ "code": -32600, "message": format!("Invalid request: {reason}") });
        assert_eq!(answer["error"], expected, "{method} {params}");
    }
}

#[tokio::test]
async fn params_that_are_not_objects_are_refused() {
    let mut app = App::builder().start().await;
    for params in [json!(5), json!("x"), json!([1, 2]), json!(true)] {
        let answer = app.exchange(json!({ "id": 1, "method": "thread/list", "params": params })).await;
        assert_eq!(answer["error"]["code"], -32600, "{params}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("Invalid request: invalid "), "{params}: {message}");
    }
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let mut app = App::builder().start().await;
    let params = json!({ "unknownField": 1, "another": { "deep": [null] }, "limit": 3 });
    let answer = app.exchange(json!({ "id": 1, "method": "thread/list", "params": params })).await;
    let empty = json!({ "data": [], "nextCursor": null, "backwardsCursor": null, "readStates": {} });
    assert_eq!(answer["result"], empty);
}
