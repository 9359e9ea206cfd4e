//! Dynamic tools of the client in namespaces.

use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallResponse, ItemCompleted, Thread,
    ThreadItem, ThreadResume, ThreadResumeParams, ThreadStart, TurnCompleted,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::tools::thread;

fn tool(name: &str) -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    json!({ "type": "function", "name": name, "description": format!("Does {name}"), "inputSchema": schema })
}

fn app_tools() -> Value {
    let mut hidden = tool("forecast");
    hidden["deferLoading"] = json!(true);
    json!({ "type": "namespace", "name": "app", "description": "The app", "tools": [tool("look"), hidden] })
}

/// Makes the model's call of a tool in the namespace.
fn call(name: &str, id: &str) -> Value {
    json!({ "type": "function_call", "id": format!("fc_{id}"), "namespace": "app", "name": name,
        "arguments": "{}", "call_id": id })
}

fn answer() -> DynamicToolCallResponse {
    let text = DynamicToolCallOutputContentItem::InputText { text: "seen".to_owned() };
    DynamicToolCallResponse { content_items: vec![text], success: true }
}

/// Returns the namespaces of a request, with the names of their tools.
fn namespaces(app: &App, request: usize) -> Vec<(String, Vec<String>)> {
    let requests = app.model().requests();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    let tools = requests[request].body()["tools"].as_array().unwrap().clone();
    let grouped = tools.iter().filter(|tool| tool["type"] == "namespace");
    grouped
        .map(|space| (name(space), space["tools"].as_array().unwrap().iter().map(name).collect()))
        .collect()
}

async fn answered(app: &mut App, thread: &Thread) -> (Option<String>, String) {
    app.start_turn(thread, "look").await;
    let asked = app.expect_request::<DynamicToolCall>().await;
    app.reply(&asked, answer()).await;
    let is_call = |item: &ThreadItem| matches!(item, ThreadItem::DynamicToolCall { .. });
    let done = app.until_where::<ItemCompleted>(|done| is_call(&done.item)).await;
    let ThreadItem::DynamicToolCall { namespace, tool, .. } = done.item else { panic!("{done:?}") };
    assert_eq!((&namespace, &tool), (&asked.params.namespace, &asked.params.tool));
    app.until::<TurnCompleted>().await;
    (namespace, tool)
}

#[tokio::test]
async fn a_tool_in_a_namespace_is_offered_called_and_survives_a_restart() {
    let script = Script::new().item(call("look", "c")).then().say("Seen");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({ "dynamicTools": [app_tools(), tool("plain")] })).await;

    assert_eq!(answered(&mut app, &thread).await, (Some("app".to_owned()), "look".to_owned()));
    assert_eq!(namespaces(&app, 0), [("app".to_owned(), vec!["look".to_owned()])]);
    assert!(app.model().requests()[0].tools().contains(&"plain"));
    let sent = app.model().requests()[1].input().to_vec();
    let sent = sent.iter().find(|item| item["type"] == "function_call").unwrap();
    assert_eq!((&sent["namespace"], &sent["name"]), (&json!("app"), &json!("look")));
    let stored = app.read(&thread).await.turns;
    let is_stored = |item: &ThreadItem| matches!(item, ThreadItem::DynamicToolCall { namespace: Some(space), .. } if space == "app");
    assert!(stored[0].items.iter().any(is_stored), "{stored:?}");

    app.rest().await;
    app.restart().await;
    app.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await;
    app.model().push(Script::new().item(call("look", "d")).then().say("Again"));
    assert_eq!(answered(&mut app, &thread).await.0.as_deref(), Some("app"));
    app.rest().await;
}

#[tokio::test]
async fn a_deferred_tool_is_found_with_its_namespace() {
    let script = Script::new()
        .call("tool_search", json!({ "query": "forecast" }))
        .call_id("s")
        .then()
        .item(call("forecast", "c"))
        .then()
        .say("Rain");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({ "dynamicTools": [app_tools()] })).await;

    assert_eq!(answered(&mut app, &thread).await.1, "forecast");
    let output = app.model().requests()[1].tool_output("s").unwrap();
    let found = json!({ "name": "forecast", "description": "Does forecast", "namespace": "app" });
    assert_eq!(serde_json::from_str::<Value>(&output).unwrap(), json!({ "tools": [found] }));
    let both = vec!["look".to_owned(), "forecast".to_owned()];
    assert_eq!(namespaces(&app, 1), [("app".to_owned(), both)]);
    app.rest().await;
}

#[tokio::test]
async fn a_tool_is_only_looked_up_in_its_namespace() {
    let script = Script::new().item(call("exec_command", "c")).then().say("No");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({ "dynamicTools": [app_tools()] })).await;
    app.run_turn(&thread, "look").await;
    let output = app.model().requests()[1].tool_output("c").unwrap();
    assert_eq!(output, "unsupported call: exec_command");
    app.rest().await;
}

#[tokio::test]
async fn providers_without_namespaces_call_tools_by_joined_names() {
    let script = Script::new().call("app__look", json!({})).call_id("c").then().say("Seen");
    let mut app = App::builder().experimental().script(script).start().await;
    let chat = json!({ "model_providers.mock.wire_api": "chat" });
    let thread = thread(&mut app, json!({ "dynamicTools": [app_tools()], "config": chat })).await;
    assert_eq!(answered(&mut app, &thread).await, (Some("app".to_owned()), "look".to_owned()));
    assert!(app.model().requests()[0].tools().contains(&"app__look"));
    app.rest().await;
}

#[tokio::test]
async fn invalid_namespaces_are_refused() {
    let mut app = App::builder().experimental().start().await;
    let space = |name: &str, tools: Vec<Value>| json!({ "type": "namespace", "name": name, "description": "d", "tools": tools });
    for (entry, message) in [
        (space("", vec![tool("a")]), "dynamic tool namespace must not be empty"),
        (space("a", vec![]), "dynamic tool namespace must contain at least one tool: a"),
        (space("mcp__x", vec![tool("a")]), "dynamic tool namespace is reserved: mcp__x"),
        (
            space("web", vec![tool("a")]),
            "dynamic tool namespace collides with a reserved Responses API namespace: web",
        ),
        (
            space("a b", vec![tool("a")]),
            "dynamic tool namespace must match ^[a-zA-Z0-9_-]+$ to match Responses API: a b",
        ),
        (space("a", vec![tool("b"), tool("b")]), "duplicate dynamic tool name in namespace a: b"),
    ] {
        let params = serde_json::from_value(json!({ "dynamicTools": [entry] })).unwrap();
        let error = app.try_call::<ThreadStart>(params).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32600, message));
    }
    let odd = json!({ "id": 9, "method": "thread/start", "params": { "dynamicTools": [{ "type": "odd" }] } });
    let refused = app.exchange(odd).await;
    let expected = "Invalid request: unknown variant `odd`, expected `function` or `namespace`";
    assert_eq!(refused["error"]["message"], expected, "{refused}");
}
