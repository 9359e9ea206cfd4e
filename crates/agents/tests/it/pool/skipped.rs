//! The guide's table of skipped events, row by row.

use codicil_agents::pool::StreamMessage;
use serde_json::{Value, json};

use super::{
    all, cold,
    fake::Fake,
    mapping::{body, shown, shown_bare},
    text,
};

/// Checks that neither format yields a message.
async fn nothing(method: &str, typed: Value, bare: Value) {
    assert_eq!(body(&shown(&[(method, typed)]).await), [], "{method}");
    assert_eq!(body(&shown_bare(&[(method, bare)]).await), [], "{method}");
}

#[tokio::test]
async fn turn_started() {
    let turn = json!({ "id": "u1", "items": [], "status": "inProgress", "error": null });
    nothing("turn/started", json!({ "turn": turn }), json!({})).await;
}

#[tokio::test]
async fn agent_message_completed_that_was_streamed() {
    let item = json!({ "type": "agentMessage", "id": "i", "text": "Hello", "phase": null });
    let messages = shown(&[
        ("item/agentMessage/delta", json!({ "itemId": "i", "delta": "Hello" })),
        ("item/completed", json!({ "item": item })),
    ])
    .await;
    assert_eq!(body(&messages), [text("Hello")]);
    let messages = shown_bare(&[
        ("item/agentMessage/delta", json!({ "delta": "Hello" })),
        ("item/agentMessage/completed", json!({ "text": "Hello" })),
    ])
    .await;
    assert_eq!(body(&messages), [text("Hello")]);
}

#[tokio::test]
async fn reasoning_completed() {
    let item = json!({ "type": "reasoning", "id": "i", "summary": ["Hm"], "content": ["Hm"] });
    assert_eq!(body(&shown(&[("item/completed", json!({ "item": item }))]).await), []);
    nothing("item/reasoning/completed", json!({ "text": "Hm" }), json!({ "text": "Hm" })).await;
}

#[tokio::test]
async fn reasoning_summary_text_delta_after_the_text() {
    let text = ("item/reasoning/textDelta", json!({ "itemId": "i", "delta": "Hm", "contentIndex": 0 }));
    let summary =
        ("item/reasoning/summaryTextDelta", json!({ "itemId": "i", "delta": "H", "summaryIndex": 0 }));
    let thought = StreamMessage::Thinking { text: "Hm".into() };
    assert_eq!(body(&shown(&[text, summary]).await), std::slice::from_ref(&thought));
    let bare = |method| (method, json!({ "delta": "Hm" }));
    let bare = [bare("item/reasoning/textDelta"), bare("item/reasoning/summaryTextDelta")];
    assert_eq!(body(&shown_bare(&bare).await), [thought]);
    nothing("item/reasoning/summaryPartAdded", json!({ "itemId": "i", "summaryIndex": 0 }), json!({})).await;
}

#[tokio::test]
async fn reasoning_summary_text_completed() {
    let params = json!({ "text": "Hm" });
    nothing("item/reasoning/summaryTextCompleted", params.clone(), params).await;
}

#[tokio::test]
async fn item_started() {
    let item = json!({ "type": "agentMessage", "id": "i", "text": "", "phase": null });
    let bare = json!({ "itemId": "item_1", "itemType": "agent_message" });
    nothing("item/started", json!({ "item": item }), bare).await;
}

#[tokio::test]
async fn item_completed() {
    let item = json!({ "type": "plan", "id": "i", "text": "First this" });
    nothing("item/completed", json!({ "item": item }), json!({ "itemId": "item_1" })).await;
}

#[tokio::test]
async fn codex_events_are_telemetry_and_counted() {
    let params = json!({ "msg": { "type": "token_count" } });
    nothing("codex/event/token_count", params.clone(), params.clone()).await;

    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    connection.notify("codex/event/token_count", params.clone()).await;
    connection.notify("codex/event/task_started", params).await;
    connection.bare_complete("Hi").await;
    all(reply).await;
    assert_eq!(pool.counts().telemetry_events, 2);
    pool.close().await;
}

#[tokio::test]
async fn unknown_notifications() {
    nothing("item/hologram/started", json!({ "itemId": "i" }), json!([1])).await;
    nothing("some/future", json!({}), json!(null)).await;
}
