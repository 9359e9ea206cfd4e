//! The guide's table of handled events, row by row, in both formats, and the additions of its roadmap.

use codicil_agents::pool::{EditState, ItemStage, PoolSettings, StreamMessage};
use serde_json::{Value, json};

use super::{all, cold, failure, fake::Fake, quick, started, status, text};

/// Returns the messages of a turn with these notifications, to which the ids of the turn are added.
pub async fn shown(notifications: &[(&str, Value)]) -> Vec<StreamMessage> {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    let (thread, turn) = connection.turn().await;
    for (method, params) in notifications {
        let mut params = params.clone();
        (params["threadId"], params["turnId"]) = (thread.clone().into(), turn.clone().into());
        connection.notify(method, params).await;
    }
    let end = json!({ "id": turn, "items": [], "status": "completed", "error": null });
    connection.notify("turn/completed", json!({ "threadId": thread, "turn": end })).await;
    let messages = all(reply).await;
    pool.close().await;
    messages
}

/// Like [`shown`], from a server that names neither threads nor turns.
pub async fn shown_bare(notifications: &[(&str, Value)]) -> Vec<StreamMessage> {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    for (method, params) in notifications {
        connection.notify(method, params.clone()).await;
    }
    connection.notify("turn/completed", json!({ "status": "completed" })).await;
    let messages = all(reply).await;
    pool.close().await;
    messages
}

/// Returns all messages but the final one, which must be a completion.
pub fn body(messages: &[StreamMessage]) -> &[StreamMessage] {
    let (last, body) = messages.split_last().unwrap();
    assert!(matches!(last, StreamMessage::Complete { .. }), "{messages:?}");
    body
}

/// Checks that the current and the older format yield the same messages.
async fn both(typed: &[(&str, Value)], bare: &[(&str, Value)], expected: &[StreamMessage]) {
    assert_eq!(body(&shown(typed).await), expected);
    assert_eq!(body(&shown_bare(bare).await), expected);
}

fn tool_use(server: Option<&str>, name: &str, input: Value) -> StreamMessage {
    StreamMessage::ToolUse { id: "i1".into(), name: name.into(), server: server.map(str::to_owned), input }
}

fn tool_result(output: &str, is_error: bool) -> StreamMessage {
    StreamMessage::ToolResult { id: "i1".into(), output: output.into(), is_error }
}

fn mcp(status: &str, result: Value, error: Value) -> Value {
    json!({ "item": {
        "type": "mcpToolCall", "id": "i1", "server": "window", "tool": "open", "status": status,
        "arguments": { "title": "Notes" }, "result": result, "error": error, "durationMs": null,
    }})
}

fn command(status: &str, output: Value, exit_code: Value) -> Value {
    json!({ "item": {
        "type": "commandExecution", "id": "i1", "command": "ls", "cwd": "/tmp", "processId": null,
        "status": status, "commandActions": [], "aggregatedOutput": output, "exitCode": exit_code,
    }})
}

fn unfinished() -> StreamMessage {
    tool_result("the turn ended before it did", true)
}

#[tokio::test]
async fn agent_message_delta_is_text() {
    let delta = |delta: &str| ("item/agentMessage/delta", json!({ "itemId": "i", "delta": delta }));
    let bare = |delta: &str| ("item/agentMessage/delta", json!({ "delta": delta }));
    let messages = shown(&[delta("Hi there"), delta("! How can I help?")]).await;
    let said = |messages: &[StreamMessage]| {
        let text = |message: &StreamMessage| match message {
            StreamMessage::Text { text } => text.clone(),
            other => panic!("{other:?}"),
        };
        body(messages).iter().map(text).collect::<String>()
    };
    assert_eq!(said(&messages), "Hi there! How can I help?");
    let messages = shown_bare(&[bare("Hi there"), bare("! How can I help?")]).await;
    assert_eq!(said(&messages), "Hi there! How can I help?");
}

#[tokio::test]
async fn reasoning_text_delta_is_thinking() {
    let typed = json!({ "itemId": "i", "delta": "Hm", "contentIndex": 0 });
    let expected = [StreamMessage::Thinking { text: "Hm".into() }];
    both(
        &[("item/reasoning/textDelta", typed.clone())],
        &[("item/reasoning/textDelta", json!({ "delta": "Hm" }))],
        &expected,
    )
    .await;
}

#[tokio::test]
async fn mcp_tool_call_started_is_tool_use() {
    let input = json!({ "title": "Notes" });
    let bare = json!({ "itemId": "i1", "server": "window", "tool": "open", "arguments": input });
    both(
        &[("item/started", mcp("inProgress", Value::Null, Value::Null))],
        &[("item/mcpToolCall/started", bare)],
        &[tool_use(Some("window"), "open", input), unfinished()],
    )
    .await;
}

#[tokio::test]
async fn mcp_tool_call_completed_is_tool_result() {
    let input = json!({ "title": "Notes" });
    let result = json!({ "content": [{ "type": "text", "text": "opened" }], "structuredContent": null });
    let call = json!({ "itemId": "i1", "server": "window", "tool": "open", "arguments": input });
    let mut end = call.clone();
    end["result"] = result.clone();
    both(
        &[
            ("item/started", mcp("inProgress", Value::Null, Value::Null)),
            ("item/completed", mcp("completed", result, Value::Null)),
        ],
        &[("item/mcpToolCall/started", call.clone()), ("item/mcpToolCall/completed", end)],
        &[tool_use(Some("window"), "open", input.clone()), tool_result("opened", false)],
    )
    .await;
    let mut end = call.clone();
    end["error"] = json!({ "message": "no such window" });
    both(
        &[("item/completed", mcp("failed", Value::Null, json!({ "message": "no such window" })))],
        &[("item/mcpToolCall/completed", end)],
        &[tool_use(Some("window"), "open", input), tool_result("no such window", true)],
    )
    .await;
}

#[tokio::test]
async fn command_execution_started_is_tool_use() {
    both(
        &[("item/started", command("inProgress", Value::Null, Value::Null))],
        &[("item/commandExecution/started", json!({ "itemId": "i1", "command": "ls", "cwd": "/tmp" }))],
        &[tool_use(None, "shell", json!({ "command": "ls", "cwd": "/tmp" })), unfinished()],
    )
    .await;
}

#[tokio::test]
async fn command_execution_completed_is_tool_result() {
    let started = json!({ "itemId": "i1", "command": ["ls"], "cwd": "/tmp" });
    let tool = tool_use(None, "shell", json!({ "command": "ls", "cwd": "/tmp" }));
    both(
        &[
            ("item/started", command("inProgress", Value::Null, Value::Null)),
            ("item/completed", command("completed", json!("a\nb\n"), json!(0))),
        ],
        &[
            ("item/commandExecution/started", started.clone()),
            ("item/commandExecution/completed", json!({ "itemId": "i1", "output": "a\nb\n", "exitCode": 0 })),
        ],
        &[tool.clone(), tool_result("a\nb\n", false)],
    )
    .await;
    both(
        &[
            ("item/started", command("inProgress", Value::Null, Value::Null)),
            ("item/completed", command("failed", json!("oh"), json!(2))),
        ],
        &[
            ("item/commandExecution/started", started),
            (
                "item/commandExecution/completed",
                json!({ "itemId": "i1", "stdout": "o", "stderr": "h", "exitCode": 2 }),
            ),
        ],
        &[tool, tool_result("oh", true)],
    )
    .await;
}

#[tokio::test]
async fn items_without_ids_are_matched_by_order() {
    let call = |tool: &str| json!({ "server": "s", "tool": tool });
    let messages = shown_bare(&[
        ("item/mcpToolCall/started", call("a")),
        ("item/mcpToolCall/completed", json!({ "output": "1" })),
        ("item/mcpToolCall/started", call("b")),
        ("item/mcpToolCall/completed", json!({ "output": "2" })),
    ])
    .await;
    let ids = body(&messages).iter().map(|message| match message {
        StreamMessage::ToolUse { id, name, .. } => (id.clone(), name.clone()),
        StreamMessage::ToolResult { id, output, .. } => (id.clone(), output.clone()),
        other => panic!("{other:?}"),
    });
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>(), ["a", "1", "b", "2"]);
    assert!(ids[0].0 == ids[1].0 && ids[2].0 == ids[3].0 && ids[0].0 != ids[2].0, "{ids:?}");
}

#[tokio::test]
async fn items_reported_in_both_formats_are_shown_once() {
    let result = json!({ "content": [{ "type": "text", "text": "opened" }], "structuredContent": null });
    let call = json!({ "itemId": "i1", "server": "window", "tool": "open", "result": result });
    let messages = shown(&[
        ("item/started", mcp("inProgress", Value::Null, Value::Null)),
        ("item/mcpToolCall/started", call.clone()),
        ("item/mcpToolCall/completed", call),
        ("item/completed", mcp("completed", result, Value::Null)),
    ])
    .await;
    assert_eq!(body(&messages).len(), 2, "{messages:?}");
}

#[tokio::test]
async fn turn_completed_is_complete() {
    let messages = shown(&[]).await;
    let expected = json!({ "type": "complete", "sessionId": "t1", "turnId": "u1", "status": "completed" });
    assert_eq!(serde_json::to_value(&messages).unwrap(), json!([expected]));
    let messages = shown_bare(&[]).await;
    let expected = json!({ "type": "complete", "sessionId": "t1", "turnId": null, "status": "completed" });
    assert_eq!(serde_json::to_value(&messages).unwrap(), json!([expected]));
}

/// Returns the messages of a turn that ends with this notification.
async fn ended(method: &str, params: Value) -> Vec<StreamMessage> {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    connection.notify(method, params).await;
    let messages = all(reply).await;
    pool.close().await;
    messages
}

#[tokio::test]
async fn turn_failed_is_an_error() {
    let failed =
        StreamMessage::Error { message: "broken".into(), code: "turn_failed".into(), is_final: true };
    assert_eq!(ended("turn/failed", json!({ "message": "broken" })).await, std::slice::from_ref(&failed));
    let turn = json!({ "id": "", "status": "failed", "error": { "message": "broken" } });
    assert_eq!(ended("turn/completed", json!({ "turn": turn })).await, [failed]);
    let messages = ended("turn/completed", json!({ "status": "interrupted" })).await;
    assert_eq!(status(&messages), Some(codicil_agents::pool::ReplyStatus::Interrupted));
}

#[tokio::test]
async fn error_is_an_error() {
    let expected = StreamMessage::Error { message: "busy".into(), code: "error".into(), is_final: false };
    both(
        &[("error", json!({ "error": { "message": "busy" }, "willRetry": true }))],
        &[("error", json!({ "error": { "message": "busy" } }))],
        &[expected],
    )
    .await;
}

#[tokio::test]
async fn patches_and_diffs_are_shown_as_diffs() {
    let change = json!({ "path": "/w/a.md", "kind": { "type": "add" }, "diff": "one\ntwo\n" });
    let item = json!({ "type": "fileChange", "id": "i1", "changes": [change], "status": "completed" });
    let messages = shown(&[
        ("item/completed", json!({ "item": item })),
        ("turn/diff/updated", json!({ "diff": "--- a\n+++ b\n" })),
    ])
    .await;
    let diff = "--- /dev/null\n+++ /w/a.md\n@@ -0,0 +1,2 @@\n+one\n+two\n".to_owned();
    let applied = EditState::Applied;
    let whole = StreamMessage::Diff { item_id: None, diff: "--- a\n+++ b\n".into(), state: applied };
    assert_eq!(body(&messages), [edit(&diff, applied), whole]);

    let patch =
        |method, status: Option<&str>| (method, json!({ "itemId": "i1", "diff": "@@ x", "status": status }));
    let messages = shown_bare(&[
        patch("item/patch/delta", None),
        patch("item/patch/completed", None),
        patch("item/patch/completed", Some("declined")),
    ])
    .await;
    let states = [EditState::Proposed, EditState::Applied, EditState::Declined];
    assert_eq!(body(&messages), states.map(|state| edit("@@ x", state)));
}

fn edit(diff: &str, state: EditState) -> StreamMessage {
    StreamMessage::Diff { item_id: Some("i1".into()), diff: diff.to_owned(), state }
}

#[tokio::test]
async fn edits_are_shown_before_they_are_made_and_with_their_outcome() {
    let change = json!({ "path": "/w/a.md", "kind": { "type": "add" }, "diff": "one\n" });
    let item = |status: &str| json!({ "item": { "type": "fileChange", "id": "i1", "changes": [change], "status": status } });
    let diff = "--- /dev/null\n+++ /w/a.md\n@@ -0,0 +1,1 @@\n+one\n";
    for (status, state) in
        [("completed", EditState::Applied), ("declined", EditState::Declined), ("failed", EditState::Failed)]
    {
        let messages = shown(&[("item/started", item("inProgress")), ("item/completed", item(status))]).await;
        assert_eq!(body(&messages), [edit(diff, EditState::Proposed), edit(diff, state)]);
        assert_eq!(serde_json::to_value(&messages[1]).unwrap()["state"], json!(state));
    }
    // A turn that ends before the edit.
    let messages = shown(&[("item/started", item("inProgress"))]).await;
    assert_eq!(body(&messages), [edit(diff, EditState::Proposed), edit(diff, EditState::Failed)]);
}

#[tokio::test]
async fn reasoning_without_text_is_shown_as_its_summary() {
    let delta = |index: u32, delta: &str| {
        ("item/reasoning/summaryTextDelta", json!({ "itemId": "i", "delta": delta, "summaryIndex": index }))
    };
    let part =
        |index: u32| ("item/reasoning/summaryPartAdded", json!({ "itemId": "i", "summaryIndex": index }));
    let late = ("item/reasoning/textDelta", json!({ "itemId": "i", "delta": "raw", "contentIndex": 0 }));
    let messages = shown(&[part(0), delta(0, "First"), part(1), delta(1, "then"), late]).await;
    let thinking = |message: &StreamMessage| match message {
        StreamMessage::Thinking { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(body(&messages).iter().map(thinking).collect::<String>(), "First\n\nthen");
}

#[tokio::test]
async fn a_message_without_deltas_is_shown_when_it_completes() {
    let item = json!({ "type": "agentMessage", "id": "i", "text": "All at once", "phase": null });
    both(
        &[("item/completed", json!({ "item": item }))],
        &[("item/agentMessage/completed", json!({ "text": "All at once" }))],
        &[text("All at once")],
    )
    .await;
}

#[tokio::test]
async fn item_events_can_be_enabled() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, lifecycle: true, ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    connection.notify("item/started", json!({ "itemId": "item_1", "itemType": "agent_message" })).await;
    connection.notify("item/agentMessage/delta", json!({ "delta": "Hi" })).await;
    connection.notify("item/agentMessage/completed", json!({ "text": "Hi" })).await;
    connection.notify("item/completed", json!({ "itemId": "item_1" })).await;
    connection.notify("item/completed", json!({ "itemId": "item_1" })).await;
    connection.notify("turn/completed", json!({})).await;
    let item = |stage| StreamMessage::Item { id: "item_1".into(), kind: "agentMessage".into(), stage };
    let messages = all(reply).await;
    assert_eq!(body(&messages), [item(ItemStage::Started), text("Hi"), item(ItemStage::Completed)]);
    pool.close().await;
}

#[tokio::test]
async fn unread_messages_are_dropped_and_counted_and_the_final_one_stays() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, reply_bytes: 4000, ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let unread = agent.ask("Go");
    let (thread, turn) = connection.turn().await;
    for number in 0..100 {
        let diff = json!({ "threadId": thread, "turnId": turn, "diff": number.to_string() });
        connection.notify("turn/diff/updated", diff).await;
    }
    connection.complete(&thread, &turn, "Done").await;
    // The reply is not read, and the next message is answered.
    let next = agent.ask("Next");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "Done").await;
    assert!(failure(&all(next).await).is_none());
    let messages = all(unread).await;
    let StreamMessage::Missed { count } = messages[0] else { panic!("{messages:?}") };
    assert_eq!(count as usize + messages.len() - 1, 102);
    assert!(messages.last().unwrap().is_final());
    pool.close().await;
}
