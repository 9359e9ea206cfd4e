//! Tools: calls, responses, events, and the rollback of failures.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use codicil_agents::evaluate::{
    ADAPTER_NAME, ClientConfig, EvaluateError, EvaluationCause, EvaluationPhase, Prompt, Tool, ToolContext,
    ToolError, ToolKind, ToolOutput,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    Recording,
    fake::{Fake, Servers, evaluator},
    soon,
};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// How much.
    amount: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Sum(i64);

/// Adds to the session's sum, then succeeds or fails depending on the amount.
fn add() -> Tool {
    Tool::new("add", "Adds to the sum.", |add: Add, cx: ToolContext| async move {
        cx.update(|sum: &mut Sum| sum.0 += add.amount);
        match add.amount {
            13 => Err(ToolError::new("unlucky")),
            666 => panic!("on purpose"),
            999 => Err(ToolError::fatal("the disk is full")),
            _ => ToolOutput::json(&cx.get::<Sum>().unwrap_or_default().0),
        }
    })
}

fn text(text: &str, success: bool) -> Value {
    json!({ "success": success, "contentItems": [{ "type": "inputText", "text": text }] })
}

/// Evaluates a prompt with these tools. `serve` plays the server after the start of the turn.
async fn with_tools<S>(tools: Vec<Tool>, recording: &Recording, serve: S) -> Result<String, EvaluateError>
where
    S: AsyncFnOnce(&mut Fake, &mut Servers),
{
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = tools.into_iter().fold(Prompt::text("Hi"), Prompt::tool);
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        serve(&mut fake, &mut servers).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    answer.map(|answer| answer.text)
}

/// Unit test: `item/tool/call` → tool → response.
#[tokio::test]
async fn dynamic_tool_call_is_run_answered_and_reported() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let recording = Recording::new();
    recording.session.set(Sum(1));
    let prompt = Prompt::text("Hi").tool(add());
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        let params = fake.start_thread().await;
        let offered = &params["dynamicTools"][0];
        assert_eq!((&offered["name"], &offered["description"]), (&json!("add"), &json!("Adds to the sum.")));
        let schema = &offered["inputSchema"];
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["amount"])));
        assert_eq!(schema["properties"]["amount"]["description"], "How much.");
        fake.start_turn().await;
        assert_eq!(fake.call("add", json!({ "amount": 2 })).await, text("3", true));
        assert_eq!(fake.call("add", json!({ "amount": 4 })).await, text("7", true));
        fake.complete().await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    answer.unwrap();
    assert_eq!(recording.session.get(), Some(Sum(7)));
    assert_eq!(recording.names(), ["PromptRendered", "ToolInvoked", "ToolInvoked", "PromptExecuted"]);
    let reported = &recording.tools()[0];
    assert_eq!(
        (&*reported.adapter, &reported.kind, &*reported.name),
        (ADAPTER_NAME, &ToolKind::Bridged, "add")
    );
    assert_eq!((&*reported.call_id, &reported.params), ("c1", &json!({ "amount": 2 })));
    assert_eq!((reported.success, &*reported.output), (true, "3"));
    assert!(reported.duration.is_some());
}

#[tokio::test]
async fn a_failed_panicking_or_malformed_call_is_rolled_back_and_the_turn_continues() {
    let recording = Recording::new();
    recording.session.set(Sum(1));
    let session = recording.session.clone();
    let answer = with_tools(vec![add()], &recording, async |fake: &mut Fake, _: &mut Servers| {
        assert_eq!(fake.call("add", json!({ "amount": 13 })).await, text("unlucky", false));
        assert_eq!(session.get(), Some(Sum(1)));
        assert_eq!(fake.call("add", json!({ "amount": 666 })).await, text("the tool panicked", false));
        assert_eq!(session.get(), Some(Sum(1)));
        let malformed = fake.call("add", json!({ "amount": "much" })).await;
        assert_eq!(malformed["success"], false);
        let said = malformed["contentItems"][0]["text"].as_str().unwrap();
        assert!(said.starts_with("invalid parameters: invalid type: string \"much\""), "{said}");
        assert_eq!(fake.call("add", json!({ "amount": 2 })).await, text("3", true));
        let unknown = fake.call("subtract", json!({})).await;
        assert_eq!(unknown, text("Unsupported dynamic tool: subtract", false));
        fake.say("Done").await;
        fake.complete().await;
    })
    .await;
    assert_eq!(answer.unwrap(), "Done");
    let reported: Vec<_> = recording.tools().iter().map(|tool| tool.success).collect();
    assert_eq!(reported, [false, false, false, true]);
}

#[tokio::test]
async fn the_external_effects_of_a_failed_call_are_undone() {
    let undone = Arc::new(AtomicUsize::new(0));
    let count = undone.clone();
    let tool = Tool::new("write", "", move |add: Add, cx: ToolContext| {
        let count = count.clone();
        async move {
            cx.on_rollback(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            if add.amount > 0 { Ok("written") } else { Err(ToolError::new("no")) }
        }
    });
    let recording = Recording::new();
    let answer = with_tools(vec![tool], &recording, async |fake: &mut Fake, _: &mut Servers| {
        fake.call("write", json!({ "amount": 1 })).await;
        assert_eq!(undone.load(Ordering::SeqCst), 0);
        fake.call("write", json!({ "amount": 0 })).await;
        assert_eq!(undone.load(Ordering::SeqCst), 1);
        fake.complete().await;
    })
    .await;
    answer.unwrap();
}

#[tokio::test]
async fn a_fatal_failure_interrupts_the_turn_and_is_an_error_of_the_tool_phase() {
    let recording = Recording::new();
    let outcome = with_tools(vec![add()], &recording, async |fake: &mut Fake, _: &mut Servers| {
        // The response and the interrupt may arrive in either order.
        let params = json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "add", "arguments": { "amount": 999 } });
        fake.send(json!({ "id": 1, "method": "item/tool/call", "params": params })).await;
        let one = fake.next().await.unwrap();
        let two = fake.next().await.unwrap();
        let (interrupt, answer) = if one.get("method").is_some() { (one, two) } else { (two, one) };
        assert_eq!(answer["result"], text("the disk is full", false));
        assert_eq!(interrupt["method"], "turn/interrupt");
        fake.reply(&interrupt, json!({})).await;
        fake.end("interrupted", Value::Null).await;
    })
    .await;
    let error = outcome.unwrap_err();
    assert_eq!(
        (error.phase(), error.to_string()),
        (Some(EvaluationPhase::Tool), "tool: tool add failed: the disk is full".into())
    );
    assert!(matches!(&error.failed().unwrap().cause, EvaluationCause::Tool { name, .. } if name == "add"));
    assert_eq!(recording.session.get::<Sum>(), None);
}

#[tokio::test]
async fn calls_of_one_turn_run_one_after_the_other() {
    let started = Arc::new(Notify::new());
    let release = Arc::new(Notify::new());
    let running = Arc::new(AtomicUsize::new(0));
    let tool = {
        let started = started.clone();
        let release = release.clone();
        let running = running.clone();
        Tool::new("slow", "", move |_: (), cx: ToolContext| {
            let started = started.clone();
            let release = release.clone();
            let running = running.clone();
            async move {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                started.notify_one();
                release.notified().await;
                cx.update(|sum: &mut Sum| sum.0 += 1);
                running.fetch_sub(1, Ordering::SeqCst);
                ToolOutput::json(&cx.get::<Sum>().unwrap_or_default().0)
            }
        })
    };
    let recording = Recording::new();
    let answer = with_tools(vec![tool], &recording, async |fake: &mut Fake, _: &mut Servers| {
        for id in 0..3 {
            let params =
                json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "slow", "arguments": {} });
            fake.send(json!({ "id": id, "method": "item/tool/call", "params": params })).await;
        }
        let mut said = Vec::new();
        for _ in 0..3 {
            soon(started.notified()).await;
            release.notify_one();
            said.push(fake.next().await.unwrap()["result"]["contentItems"][0]["text"].clone());
        }
        assert_eq!(said, ["1", "2", "3"]);
        fake.complete().await;
    })
    .await;
    answer.unwrap();
    assert_eq!(recording.session.get(), Some(Sum(3)));
}

/// Returns a tool that changes the state and never ends, and a notification of its start.
fn hanging() -> (Tool, Arc<Notify>) {
    let started = Arc::new(Notify::new());
    let begun = started.clone();
    let tool = Tool::new("hang", "", move |_: (), cx: ToolContext| {
        let started = started.clone();
        async move {
            cx.set(Sum(5));
            started.notify_one();
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    (tool, begun)
}

#[tokio::test]
async fn a_call_that_the_server_cancels_is_rolled_back_and_reported() {
    let (tool, started) = hanging();
    let recording = Recording::new();
    let answer = with_tools(vec![tool], &recording, async |fake: &mut Fake, _: &mut Servers| {
        let params =
            json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "hang", "arguments": {} });
        fake.send(json!({ "id": "q", "method": "item/tool/call", "params": params })).await;
        soon(started.notified()).await;
        fake.notify("serverRequest/resolved", json!({ "threadId": "t", "requestId": "q" })).await;
        fake.complete().await;
    })
    .await;
    answer.unwrap();
    let reported = &recording.tools()[0];
    assert_eq!((reported.success, &*reported.output), (false, "the call was cut off"));
    assert_eq!(recording.session.get::<Sum>(), None);
}

#[tokio::test]
async fn dropping_the_evaluation_rolls_back_the_call() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let recording = Recording::new();
    let (tool, started) = hanging();
    let prompt = Prompt::text("Hi").tool(tool);
    let session = recording.session.clone();
    let evaluating =
        tokio::spawn(async move { evaluator.evaluate(&prompt).session(&session).text().await.map(drop) });
    let mut fake = servers.accept().await;
    fake.start_thread().await;
    fake.start_turn().await;
    let params = json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "hang", "arguments": {} });
    fake.send(json!({ "id": "q", "method": "item/tool/call", "params": params })).await;
    soon(started.notified()).await;
    evaluating.abort();
    assert!(soon(evaluating).await.unwrap_err().is_cancelled());
    fake.expect("turn/interrupt").await;
    assert_eq!(fake.next().await, None, "the connection ends");
    drop(fake);
    soon(async {
        while recording.tools().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((recording.tools()[0].success, recording.session.get::<Sum>()), (false, None));
}
