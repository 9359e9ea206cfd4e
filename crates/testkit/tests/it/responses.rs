//! The Responses dialect.

use codicil_testkit::{ModelServer, Script};
use serde_json::{Value, json};

use crate::client::{Event, RESPONSES, events, joined, kinds, post, stream};

/// Returns the item of the only `output_item.done`, and checks that the final response has it too.
fn only_item(events: &[Event]) -> Value {
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind() == "response.output_item.done")
        .map(|event| &event.data["item"])
        .collect();
    assert_eq!(done.len(), 1);
    assert_eq!(&events.last().unwrap().data["response"]["output"], &json!(done));
    done[0].clone()
}

#[tokio::test]
async fn a_message_comes_with_all_its_events() {
    let events = events(Script::new().say("Let me look").phase("commentary"), RESPONSES).await;

    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(joined(&events, "response.output_text.delta", "/delta"), "Let me look");
    assert_eq!(events.iter().filter(|event| event.kind() == "response.output_text.delta").count(), 3);
    assert_eq!(
        only_item(&events),
        json!({
            "type": "message", "id": "msg_0000000001", "status": "completed", "role": "assistant",
            "phase": "commentary",
            "content": [{ "type": "output_text", "text": "Let me look", "annotations": [], "logprobs": [] }],
        })
    );
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.name.as_deref(), Some(event.kind()));
        assert_eq!(event.data["sequence_number"], number);
    }
}

#[tokio::test]
async fn the_final_response_names_the_model_and_counts_tokens() {
    let events = events(Script::new().usage(1_000, 800, 50, 20), RESPONSES).await;

    let response = &events.last().unwrap().data["response"];
    assert_eq!(
        (&response["id"], &response["model"], &response["status"]),
        (&json!("resp_0000000001"), &json!("m"), &json!("completed"))
    );
    assert_eq!(
        response["usage"],
        json!({
            "input_tokens": 1_000, "input_tokens_details": { "cached_tokens": 800 },
            "output_tokens": 50, "output_tokens_details": { "reasoning_tokens": 20 }, "total_tokens": 1_050,
        })
    );
}

#[tokio::test]
async fn usage_may_be_left_out() {
    let events = events(Script::new().say("hi").no_usage(), RESPONSES).await;
    assert_eq!(events.last().unwrap().data["response"]["usage"], Value::Null);
}

#[tokio::test]
async fn reasoning_has_summary_parts_and_raw_text() {
    let events = events(Script::new().think_parts(["One", "Two"]).think_raw("really"), RESPONSES).await;

    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let parts = events.iter().filter(|event| event.kind() == "response.reasoning_summary_text.delta");
    assert_eq!(parts.map(|part| &part.data["summary_index"]).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(
        only_item(&events),
        json!({
            "type": "reasoning", "id": "rs_0000000001", "encrypted_content": null,
            "summary": [{ "type": "summary_text", "text": "One" }, { "type": "summary_text", "text": "Two" }],
            "content": [{ "type": "reasoning_text", "text": "really" }],
        })
    );
}

#[tokio::test]
async fn reasoning_is_encrypted_on_request() {
    let server = ModelServer::start(Script::new().think("Hm")).await;
    let request = json!({ "stream": true, "include": ["reasoning.encrypted_content"] });
    let events = post(&server, RESPONSES, request).await.events().await.unwrap();
    assert_eq!(only_item(&events)["encrypted_content"], "encrypted_0000000001");
}

#[tokio::test]
async fn a_function_call_streams_its_arguments() {
    let arguments = json!({ "cmd": ["ls", "-l"] });
    let events = events(Script::new().call("exec_command", arguments.clone()), RESPONSES).await;

    assert_eq!(
        kinds(&events)[1..5],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
        ]
    );
    assert_eq!(joined(&events, "response.function_call_arguments.delta", "/delta"), arguments.to_string());
    assert_eq!(
        only_item(&events),
        json!({
            "type": "function_call", "id": "fc_0000000001", "call_id": "call_0000000001", "status": "completed",
            "name": "exec_command", "arguments": arguments.to_string(),
        })
    );
}

#[tokio::test]
async fn a_call_can_have_a_given_id_and_invalid_arguments() {
    let events = events(Script::new().call_text("exec_command", "{oops").call_id("call_x"), RESPONSES).await;
    let item = only_item(&events);
    assert_eq!((&item["call_id"], &item["arguments"]), (&json!("call_x"), &json!("{oops")));
}

#[tokio::test]
async fn a_custom_call_streams_its_input() {
    let events = events(Script::new().custom_call("apply_patch", "*** Begin Patch\n"), RESPONSES).await;
    assert_eq!(joined(&events, "response.custom_tool_call_input.delta", "/delta"), "*** Begin Patch\n");
    assert_eq!(
        only_item(&events),
        json!({
            "type": "custom_tool_call", "id": "ctc_0000000001", "call_id": "call_0000000001",
            "status": "completed", "name": "apply_patch", "input": "*** Begin Patch\n",
        })
    );
}

#[tokio::test]
async fn a_web_search_has_progress_events() {
    let events = events(Script::new().web_search("weather"), RESPONSES).await;
    assert_eq!(
        kinds(&events)[1..6],
        [
            "response.output_item.added",
            "response.web_search_call.in_progress",
            "response.web_search_call.searching",
            "response.web_search_call.completed",
            "response.output_item.done",
        ]
    );
    let item = only_item(&events);
    assert_eq!(item["action"], json!({ "type": "search", "query": "weather" }));
    assert_eq!(item["status"], "completed");
}

#[tokio::test]
async fn raw_items_and_events_are_sent_unchanged() {
    let item =
        json!({ "type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AA==" });
    let raw = json!({ "type": "response.unheard_of", "x": 1 });
    let events = events(Script::new().item(item.clone()).raw(raw.clone()), RESPONSES).await;
    assert_eq!(only_item(&events), item);
    let event = Event { name: Some("response.unheard_of".to_owned()), data: raw };
    assert!(events.contains(&event));
}

#[tokio::test]
async fn items_are_numbered_across_replies() {
    let server =
        ModelServer::start(Script::new().say("a").say("b").call("x", json!({})).then().say("c")).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        for event in stream(&server, RESPONSES).await.events().await.unwrap() {
            if event.kind() == "response.output_item.done" {
                ids.push((event.data["output_index"].clone(), event.data["item"]["id"].clone()));
            }
        }
    }
    let expected =
        [(0, "msg_0000000001"), (1, "msg_0000000002"), (2, "fc_0000000001"), (0, "msg_0000000003")];
    assert_eq!(ids, expected.map(|(index, id)| (json!(index), json!(id))));
}

#[tokio::test]
async fn a_failure_ends_the_stream_with_its_code() {
    let script = Script::new().say("Let me").unfinished().fail("rate_limit_exceeded", "slow down");
    let events = events(script, RESPONSES).await;
    let last = events.last().unwrap();
    assert_eq!(last.kind(), "response.failed");
    assert_eq!(last.data["response"]["status"], "failed");
    assert_eq!(
        last.data["response"]["error"],
        json!({ "code": "rate_limit_exceeded", "message": "slow down" })
    );
    assert!(!kinds(&events).contains(&"response.output_item.done"));
}

#[tokio::test]
async fn an_incomplete_response_says_why() {
    let events =
        events(Script::new().say("Let").unfinished().incomplete("max_output_tokens"), RESPONSES).await;
    let last = events.last().unwrap();
    assert_eq!(last.kind(), "response.incomplete");
    assert_eq!(last.data["response"]["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(last.data["response"]["output"][0]["content"][0]["text"], "Let");
}

#[tokio::test]
async fn without_a_stream_the_response_is_one_json_object() {
    let server = ModelServer::start(Script::new().say("hi").call("x", json!({ "a": 1 }))).await;
    let response = post(&server, RESPONSES, json!({ "model": "m" })).await.json().await;
    assert_eq!(response["object"], "response");
    assert_eq!(response["output"][0]["content"][0]["text"], "hi");
    assert_eq!(response["output"][1]["arguments"], "{\"a\":1}");
    assert_eq!(response["usage"]["total_tokens"], 110);
}
