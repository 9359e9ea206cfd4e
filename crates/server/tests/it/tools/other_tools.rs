//! User input, permissions, images, plans and dynamic tools.

use std::fs;

use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallResponse, PermissionsApproval,
    ThreadStart, ToolUserInput, TurnPlanUpdated, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::{call_output, free_thread, thread};

#[tokio::test]
async fn a_dynamic_tool_of_the_client_may_return_images() {
    let script = Script::new().call("look_up", json!({ "id": 7 })).call_id("c").then().say("Seen");
    let mut app = App::builder().experimental().script(script).start().await;
    let tool = json!({ "name": "look_up", "description": "Finds it",
        "inputSchema": { "type": "object", "properties": { "id": { "type": "number" } } } });
    let hidden = json!({ "name": "hidden", "description": "d", "inputSchema": {}, "deferLoading": true });
    let thread = thread(&mut app, json!({ "dynamicTools": [tool, hidden] })).await;
    app.start_turn(&thread, "look").await;

    let asked = app.expect_request::<DynamicToolCall>().await;
    assert_eq!((asked.params.tool.as_str(), &asked.params.arguments), ("look_up", &json!({ "id": 7 })));
    let parts = vec![
        DynamicToolCallOutputContentItem::InputText { text: "a dot".to_owned() },
        DynamicToolCallOutputContentItem::InputImage { image_url: "data:image/png;base64,AA==".to_owned() },
    ];
    app.reply(&asked, DynamicToolCallResponse { content_items: parts, success: true }).await;
    let rest = app.rest().await;

    assert!(rest.contains("dynamicToolCall status=completed success=true tool=look_up"), "{rest}");
    let requests = app.model().requests();
    let tools = requests[0].tools();
    assert!(tools.contains(&"look_up") && !tools.contains(&"hidden"), "{tools:?}");
    let output = requests[1].input().iter().find(|item| item["type"] == "function_call_output").unwrap();
    assert_eq!(output["output"][1]["type"], "input_image");
}

#[tokio::test]
async fn invalid_dynamic_tools_are_refused_when_the_thread_starts() {
    let mut app = App::builder().experimental().start().await;
    let tool = |name: &str| json!({ "name": name, "description": "d", "inputSchema": {} });
    for (tools, message) in [
        (vec![tool("a"), tool("a")], "duplicate dynamic tool name: a"),
        (vec![tool("")], "dynamic tool name must not be empty"),
        (vec![tool("mcp__x__y")], "dynamic tool name is reserved: mcp__x__y"),
    ] {
        let params = serde_json::from_value(json!({ "dynamicTools": tools })).unwrap();
        let error = app.try_call::<ThreadStart>(params).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32600, message));
    }
}

#[tokio::test]
async fn in_plan_mode_the_model_may_ask_the_user() {
    let question = json!({ "id": "color", "header": "Colour", "question": "Which?",
        "options": [{ "label": "Blue", "description": "Calm" }] });
    let script = Script::new()
        .call("request_user_input", json!({ "questions": [question] }))
        .call_id("c")
        .then()
        .say("Ok");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    let mode = json!({ "mode": "plan", "settings": { "model": "mock-model", "reasoning_effort": null,
        "developer_instructions": null } });
    let params = json!({ "threadId": thread.id, "collaborationMode": mode,
        "input": [{ "type": "text", "text": "plan" }] });
    app.call::<codicil_protocol::TurnStart>(serde_json::from_value(params).unwrap()).await;

    let asked = app.expect_request::<ToolUserInput>().await;
    assert!(asked.params.questions[0].is_other && asked.params.is_blocking);
    let answers = json!({ "answers": { "color": { "answers": ["Blue"] } } });
    app.reply(&asked, serde_json::from_value(answers.clone()).unwrap()).await;
    app.until::<codicil_protocol::TurnCompleted>().await;

    assert_eq!(serde_json::from_str::<Value>(&call_output(&app, "c")).unwrap(), answers);
    app.rest().await;
}

#[tokio::test]
async fn a_call_asks_one_to_three_questions() {
    let question = |id: usize| {
        json!({ "id": format!("q{id}"), "header": "H", "question": "Which?",
            "options": [{ "label": "Blue", "description": "Calm" }] })
    };
    let questions = |count: usize| json!({ "questions": (0..count).map(question).collect::<Vec<_>>() });
    let script = Script::new()
        .call("request_user_input", questions(0))
        .call_id("none")
        .then()
        .call("request_user_input", questions(4))
        .call_id("four")
        .then()
        .call("request_user_input", questions(3))
        .call_id("three")
        .then()
        .say("Ok");
    let config = "[features]\ndefault_mode_request_user_input = true\n";
    let mut app = App::builder().experimental().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "ask").await;

    let asked = app.expect_request::<ToolUserInput>().await;
    assert_eq!(asked.params.questions.len(), 3);
    app.reply(&asked, serde_json::from_value(json!({ "answers": {} })).unwrap()).await;
    app.until::<codicil_protocol::TurnCompleted>().await;
    assert_eq!(call_output(&app, "none"), "request_user_input takes one to three questions, not 0");
    assert_eq!(call_output(&app, "four"), "request_user_input takes one to three questions, not 4");
    app.rest().await;
}

#[tokio::test]
async fn granted_permissions_widen_the_sandbox_for_the_turn() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().canonicalize().unwrap();
    let wanted = json!({ "file_system": { "write": [folder] } });
    let write = |name: &str| json!({ "cmd": format!("touch {}/{name}", folder.display()) });
    let script = Script::new()
        .call("request_permissions", json!({ "permissions": wanted, "reason": "To write" }))
        .call_id("c")
        .then()
        .call("exec_command", write("first"))
        .then()
        .say("Done")
        .then()
        .call("exec_command", write("second"))
        .then()
        .say("Not any more");
    let config = "[features]\nrequest_permissions_tool = true\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "write").await;

    let asked = app.expect_request::<PermissionsApproval>().await;
    assert_eq!(asked.params.cwd, thread.cwd);
    assert!(asked.params.started_at_ms > 0);
    let granted = json!({ "permissions": { "fileSystem": { "write": [folder, "/etc"] } }, "scope": "turn" });
    app.reply(&asked, serde_json::from_value(granted).unwrap()).await;
    app.rest().await;

    let text: Value = serde_json::from_str(&call_output(&app, "c")).unwrap();
    assert_eq!(text["permissions"]["file_system"]["write"], json!([folder]), "no more than was asked for");
    assert!(folder.join("first").exists());
    app.run_turn(&thread, "again").await;
    assert!(!folder.join("second").exists(), "the grant was for one turn");
    app.rest().await;
}

#[tokio::test]
async fn an_image_is_viewed_and_a_missing_one_is_reported() {
    const PNG: &[u8] = &[
        0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1,
        8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0xf8,
        0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x56, 0xc7, 0x2f, 0x0d, 0, 0, 0, 0, b'I', b'E', b'N', b'D',
        0xae, 0x42, 0x60, 0x82,
    ];
    let script = Script::new()
        .call("view_image", json!({ "path": "dot.png" }))
        .call("view_image", json!({ "path": "none.png" }))
        .call_id("none")
        .then()
        .say("A dot");
    let mut app = App::start(script).await;
    fs::write(app.workspace().join("dot.png"), PNG).unwrap();
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "look").await;

    let rest = app.rest().await;
    assert_eq!(rest.matches("← item/completed imageView").count(), 1, "{rest}");
    assert!(call_output(&app, "none").starts_with("unable to view `"), "{}", call_output(&app, "none"));
}

#[tokio::test]
async fn a_plan_is_announced_and_an_invalid_one_is_not() {
    let plan = json!({ "plan": [{ "step": "Look", "status": "completed" }, { "step": "Do", "status": "in_progress" }] });
    let script = Script::new()
        .call("update_plan", plan)
        .call_id("a")
        .call("update_plan", json!({ "plan": [{ "step": "Look", "status": "maybe" }] }))
        .call_id("b")
        .then()
        .say("Ok");
    let mut app = App::start(script).await;
    let thread = free_thread(&mut app).await;
    app.start_turn(&thread, "plan").await;

    let told_plan = app.until::<TurnPlanUpdated>().await;
    assert_eq!(serde_json::to_value(&told_plan.plan).unwrap()[1]["status"], "inProgress");
    let rest = app.rest().await;
    assert!(
        !rest.contains("turn/plan/updated") && rest.ends_with(&format!("← turn/completed {}", "completed"))
    );
    assert_eq!(call_output(&app, "a"), "Plan updated");
    assert!(call_output(&app, "b").starts_with("failed to parse function arguments: "));
    assert_eq!(app.read(&thread).await.turns[0].status, TurnStatus::Completed);
}

#[tokio::test]
async fn deferred_tools_are_found_by_search_and_offered_from_then_on() {
    let script = Script::new()
        .call("tool_search", json!({ "query": "weather forecast" }))
        .call_id("s")
        .then()
        .call("weather", json!({ "city": "Oslo" }))
        .call_id("w")
        .then()
        .call("tool_search", json!({ "query": "nothing like it" }))
        .call_id("n")
        .then()
        .say("Rain");
    let mut app = App::builder().experimental().script(script).start().await;
    let tool = |name: &str, about: &str| {
        let schema = json!({ "type": "object", "properties": {} });
        json!({ "name": name, "description": about, "inputSchema": schema, "deferLoading": true })
    };
    let tools = [tool("weather", "Says how the weather will be"), tool("stocks", "Prices of shares")];
    let thread = thread(&mut app, json!({ "dynamicTools": tools })).await;
    app.start_turn(&thread, "look").await;
    let asked = app.expect_request::<DynamicToolCall>().await;
    assert_eq!(asked.params.tool, "weather");
    let text = DynamicToolCallOutputContentItem::InputText { text: "rain".to_owned() };
    app.reply(&asked, DynamicToolCallResponse { content_items: vec![text], success: true }).await;
    app.rest().await;

    let found = json!({ "tools": [{ "name": "weather", "description": "Says how the weather will be" }] });
    assert_eq!(call_output(&app, "s"), found.to_string());
    assert_eq!(call_output(&app, "n"), "no tool was found; try other words");
    let requests = app.model().requests();
    let offers = |number: usize, name: &str| requests[number].tools().contains(&name);
    assert!(offers(0, "tool_search") && !offers(0, "weather") && !offers(0, "stocks"));
    assert!(offers(1, "tool_search") && offers(1, "weather") && !offers(1, "stocks"));
    // The tool stays available in later turns.
    app.model().push(Script::new().say("Again"));
    app.run_turn(&thread, "more").await;
    let requests = app.model().requests();
    assert!(requests.last().unwrap().tools().contains(&"weather"));
    app.rest().await;
}

#[tokio::test]
async fn without_the_feature_there_is_no_search_tool() {
    let script = Script::new().say("Ok");
    let config = "features.tool_search = false";
    let mut app = App::builder().experimental().config(config).script(script).start().await;
    let tool = json!({ "name": "a", "description": "d", "inputSchema": {}, "deferLoading": true });
    let thread = thread(&mut app, json!({ "dynamicTools": [tool] })).await;
    app.run_turn(&thread, "hi").await;
    assert!(!app.model().requests()[0].tools().contains(&"tool_search"));
    app.rest().await;
}
