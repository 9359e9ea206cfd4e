//! Methods, fields and values that need `capabilities.experimentalApi`.

use std::collections::BTreeMap;

use codicil_protocol::{
    CLIENT_REQUESTS, ProtocolGeneration, Stability,
    schema::{ExportAudience, ExportScope, json_schema},
};
use codicil_testkit::App;
use serde_json::{Value, json};

use crate::NO_THREAD;

/// Returns requests, each with the descriptor of its error if it is gated.
fn requests() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let granular =
        json!({ "granular": { "sandbox_approval": true, "rules": true, "mcp_elicitations": true } });
    let tool = json!({ "name": "a", "description": "b", "inputSchema": { "type": "object" } });
    let mode = json!({ "mode": "plan", "settings": { "model": "m" } });
    let tokens = json!({ "type": "chatgptAuthTokens", "accessToken": "x", "chatgptAccountId": "a" });
    let item = json!({ "type": "message", "role": "user", "content": [] });
    let thread = |mut params: Value| {
        params["threadId"] = json!(NO_THREAD);
        params
    };
    let turn = |mut params: Value| {
        params["input"] = json!([]);
        thread(params)
    };
    vec![
        ("thread/start", json!({ "mockExperimentalField": "x" }), Some("thread/start.mockExperimentalField")),
        ("thread/start", json!({ "mockExperimentalField": null }), None),
        (
            "thread/start",
            json!({ "experimentalRawEvents": true }),
            Some("thread/start.experimentalRawEvents"),
        ),
        ("thread/start", json!({ "experimentalRawEvents": false }), None),
        ("thread/start", json!({ "persistExtendedHistory": true }), Some("thread/start.persistFullHistory")),
        ("thread/start", json!({ "persistExtendedHistory": false }), None),
        ("thread/start", json!({ "dynamicTools": [tool] }), Some("thread/start.dynamicTools")),
        ("thread/start", json!({ "dynamicTools": [] }), None),
        ("thread/start", json!({ "dynamicTools": null }), None),
        ("thread/start", json!({ "approvalPolicy": granular }), Some("askForApproval.granular")),
        ("thread/resume", thread(json!({ "approvalPolicy": granular })), Some("askForApproval.granular")),
        ("thread/fork", thread(json!({ "approvalPolicy": granular })), Some("askForApproval.granular")),
        ("turn/start", turn(json!({ "approvalPolicy": granular })), Some("askForApproval.granular")),
        ("turn/start", turn(json!({ "collaborationMode": mode })), Some("turn/start.collaborationMode")),
        ("turn/start", turn(json!({ "collaborationMode": null })), None),
        ("thread/resume", thread(json!({ "path": "/x" })), Some("thread/resume.path")),
        ("thread/resume", thread(json!({ "path": null })), None),
        ("thread/resume", thread(json!({ "history": [item] })), Some("thread/resume.history")),
        ("thread/resume", thread(json!({ "history": [] })), None),
        (
            "thread/resume",
            thread(json!({ "persistExtendedHistory": true })),
            Some("thread/resume.persistFullHistory"),
        ),
        ("thread/fork", thread(json!({ "path": "/x" })), Some("thread/fork.path")),
        (
            "thread/fork",
            thread(json!({ "persistExtendedHistory": true })),
            Some("thread/fork.persistFullHistory"),
        ),
        ("account/login/start", tokens, Some("account/login/start.chatgptAuthTokens")),
    ]
}

/// Returns the descriptor in an error of the gate.
fn gated(answer: &Value) -> Option<&str> {
    let message = answer["error"]["message"].as_str()?;
    let descriptor = message.strip_suffix(" requires experimentalApi capability")?;
    assert_eq!(answer["error"]["code"], -32600);
    Some(descriptor)
}

#[tokio::test]
async fn experimental_fields_and_values_are_refused_by_name() {
    let mut app = App::builder().start().await;
    for (method, params, expected) in requests() {
        let answer = app.exchange(json!({ "id": "g", "method": method, "params": params })).await;
        assert_eq!(gated(&answer), expected, "{method} {params}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn experimental_fields_and_values_are_accepted_after_opting_in() {
    let mut app = App::builder().experimental().start().await;
    for (method, params, _) in requests() {
        let answer = app.exchange(json!({ "id": "g", "method": method, "params": params })).await;
        assert_eq!(gated(&answer), None, "{method} {params}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(!message.starts_with("Invalid request:"), "{method} {params}: {message}");
    }
    app.ignore_rest();
}

/// Returns the shortest params of every method, by the name of their type.
pub(crate) fn least_params() -> BTreeMap<String, Value> {
    let scope = |generation| ExportScope { generation, audience: ExportAudience::Experimental };
    let files = ProtocolGeneration::ALL.into_iter().flat_map(|generation| json_schema(scope(generation)));
    let types = files.filter_map(|file| {
        let name = file.path.rsplit('/').next()?.strip_suffix("Params.json")?;
        let schema: Value = serde_json::from_str(&file.content).ok()?;
        Some((format!("{name}Params"), least(&schema, &schema["definitions"])))
    });
    types.collect()
}

/// Returns a short value of a schema: objects have only their required members.
fn least(schema: &Value, definitions: &Value) -> Value {
    let first = |key: &str| schema[key].as_array().and_then(|choices| choices.first());
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return least(&definitions[name], definitions);
    }
    if let Some(choice) = first("oneOf").or(first("anyOf")).or(first("allOf")) {
        return least(choice, definitions);
    }
    if let Some(value) = first("enum").or(schema.get("const")) {
        return value.clone();
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match schema["type"].as_str().or(first("type").and_then(Value::as_str)) {
        Some("string") => json!("/x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        _ => required.map(|name| (name, least(&schema["properties"][name], definitions))).collect(),
    }
}

#[tokio::test]
async fn experimental_methods_are_refused_by_name() {
    let (mut stable, mut experimental) =
        (App::builder().start().await, App::builder().experimental().start().await);
    let methods = CLIENT_REQUESTS
        .iter()
        .filter(|method| method.is_served && method.stability == Stability::Experimental);
    let params = least_params();
    let mut count = 0;
    for method in methods {
        let params = method.params.and_then(|info| params.get(&(info.name)()));
        let request = json!({ "id": "g", "method": method.name, "params": params });
        let refused = stable.exchange(request.clone()).await;
        assert_eq!(gated(&refused), Some(method.name), "{request} {refused}");
        assert_eq!(gated(&experimental.exchange(request).await), None, "{}", method.name);
        count += 1;
    }
    assert_eq!(count, 73);
    stable.ignore_rest();
    experimental.ignore_rest();
}

#[tokio::test]
async fn the_mock_method_echoes() {
    let mut app = App::builder().experimental().start().await;
    for (params, echoed) in [
        (json!({}), Value::Null),
        (json!({ "value": null }), Value::Null),
        (json!({ "value": "ping" }), json!("ping")),
        (json!({ "value": "\"ünï\"\n\u{0}" }), json!("\"ünï\"\n\u{0}")),
    ] {
        let request = json!({ "id": 7, "method": "mock/experimentalMethod", "params": params });
        assert_eq!(app.exchange(request).await, json!({ "id": 7, "result": { "echoed": echoed } }));
    }
}

#[tokio::test]
async fn an_empty_list_is_gated_in_the_later_generation_only() {
    let empty = [
        ("thread/start", json!({ "dynamicTools": [] }), "thread/start.dynamicTools"),
        ("thread/resume", json!({ "threadId": NO_THREAD, "history": [] }), "thread/resume.history"),
    ];
    let mut later = App::builder().later_client().start().await;
    for (method, params, descriptor) in &empty {
        let answer = later.exchange(json!({ "id": "g", "method": method, "params": params })).await;
        assert_eq!(gated(&answer), Some(*descriptor), "{method}");
    }
    let mut earlier = App::builder().start().await;
    for (method, params, _) in &empty {
        let answer = earlier.exchange(json!({ "id": "g", "method": method, "params": params })).await;
        assert_eq!(gated(&answer), None, "{method}");
    }
    earlier.ignore_rest();
}
