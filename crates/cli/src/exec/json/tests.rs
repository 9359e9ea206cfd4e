use serde_json::{Value, json, value::to_raw_value};

use super::*;

fn thread() -> Thread {
    serde_json::from_value(json!({
        "id": "t", "preview": "", "ephemeral": false, "modelProvider": "", "createdAt": 0, "updatedAt": 0,
        "status": { "type": "idle" }, "cwd": "/", "cliVersion": "", "source": "exec", "turns": [],
    }))
    .unwrap()
}

fn lines(events: &[(&str, Value)]) -> Vec<Value> {
    let mut json = JsonReport::new(Vec::new());
    json.thread_opened(&thread()).unwrap();
    for (method, params) in events {
        let event = ServerNotification::decode(method, Some(&to_raw_value(params).unwrap()));
        assert!(!matches!(event, ServerNotification::Unknown(_)), "{method}: {params}");
        json.event(&event).unwrap();
    }
    let text = String::from_utf8(json.out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn item_params(item: Value) -> Value {
    json!({ "threadId": "t", "turnId": "u", "item": item })
}

fn command(status: &str, output: Value, exit_code: Value) -> Value {
    item_params(json!({
        "type": "commandExecution", "id": "call_1", "command": "ls", "cwd": "/", "status": status,
        "commandActions": [], "aggregatedOutput": output, "exitCode": exit_code, "source": "agent",
    }))
}

#[test]
fn items_keep_their_number_from_start_to_end() {
    let lines_written = lines(&[
        ("item/started", command("inProgress", Value::Null, Value::Null)),
        ("item/started", item_params(json!({ "type": "agentMessage", "id": "m", "text": "" }))),
        ("item/completed", item_params(json!({ "type": "agentMessage", "id": "m", "text": "Hi" }))),
        ("item/completed", command("completed", json!("a\n"), json!(0))),
        ("item/completed", item_params(json!({ "type": "userMessage", "id": "x", "content": [] }))),
    ]);
    let expected = json!([
        { "type": "thread.started", "thread_id": "t" },
        { "type": "item.started", "item": { "id": "item_0", "type": "command_execution", "command": "ls",
            "aggregated_output": "", "exit_code": null, "status": "in_progress" } },
        { "type": "item.completed", "item": { "id": "item_1", "type": "agent_message", "text": "Hi" } },
        { "type": "item.completed", "item": { "id": "item_0", "type": "command_execution", "command": "ls",
            "aggregated_output": "a\n", "exit_code": 0, "status": "completed" } },
    ]);
    assert_eq!(Value::from(lines_written), expected);
}

#[test]
fn every_kind_of_item_has_its_shape() {
    let check = |item: Value, expected: Value| {
        let mut lines_written = lines(&[("item/completed", item_params(item.clone()))]);
        let mut expected = expected;
        expected["id"] = "item_0".into();
        assert_eq!(lines_written.pop().unwrap()["item"], expected, "{item}");
    };
    check(
        json!({ "type": "reasoning", "id": "r", "summary": ["**A**\n\nb", "c"] }),
        json!({ "type": "reasoning", "text": "**A**\n\nb\n\nc" }),
    );
    let change = |kind: Value| json!({ "path": "/f", "kind": kind, "diff": "" });
    check(
        json!({ "type": "fileChange", "id": "p", "status": "declined", "changes": [
            change(json!({ "type": "add" })), change(json!({ "type": "update", "move_path": null })) ] }),
        json!({ "type": "file_change", "status": "failed", "changes": [
            { "path": "/f", "kind": "add" }, { "path": "/f", "kind": "update" } ] }),
    );
    check(
        json!({ "type": "mcpToolCall", "id": "c", "server": "s", "tool": "t", "status": "completed",
            "arguments": { "a": 1 }, "result": { "content": [], "structuredContent": null }, "error": null }),
        json!({ "type": "mcp_tool_call", "server": "s", "tool": "t", "status": "completed",
            "arguments": { "a": 1 }, "result": { "content": [], "structured_content": null }, "error": null }),
    );
    check(
        json!({ "type": "webSearch", "id": "w", "query": "cats", "action": null }),
        json!({ "type": "web_search", "query": "cats", "action": null }),
    );
}

#[test]
fn a_plan_is_one_todo_list_that_is_updated() {
    let plan = |status: &str| {
        json!({ "threadId": "t", "turnId": "u", "explanation": null,
            "plan": [{ "step": "one", "status": status }] })
    };
    let lines_written =
        lines(&[("turn/plan/updated", plan("inProgress")), ("turn/plan/updated", plan("completed"))]);
    let list = |completed: bool| json!({ "id": "item_0", "type": "todo_list", "items": [{ "text": "one", "completed": completed }] });
    assert_eq!(lines_written[1], json!({ "type": "item.started", "item": list(false) }));
    assert_eq!(lines_written[2], json!({ "type": "item.updated", "item": list(true) }));
}

#[test]
fn retried_errors_are_items() {
    let error = |will_retry: bool| {
        let error = json!({ "message": "lost", "codexErrorInfo": null, "additionalDetails": null });
        json!({ "threadId": "t", "turnId": "u", "error": error, "willRetry": will_retry })
    };
    let lines_written = lines(&[("error", error(true)), ("error", error(false))]);
    assert_eq!(lines_written[1]["item"], json!({ "id": "item_0", "type": "error", "message": "lost" }));
    assert_eq!(lines_written[2], json!({ "type": "error", "message": "lost" }));
}

#[test]
fn lines_begin_with_their_type() {
    let mut json = JsonReport::new(Vec::new());
    json.thread_opened(&thread()).unwrap();
    json.warn("careful").unwrap();
    let text = String::from_utf8(json.out).unwrap();
    let expected = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n\
                    {\"type\":\"item.completed\",\"item\":{\"id\":\"item_0\",\"type\":\"error\",\"message\":\"careful\"}}\n";
    assert_eq!(text, expected);
}
