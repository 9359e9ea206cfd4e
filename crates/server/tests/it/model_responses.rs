//! Responses that real providers give: broken, truncated, too long, with words of their own. Clients see the reason,
//! and nothing is lost or sent twice.

use codicil_protocol::{
    CodexErrorInfo, ErrorReported, ThreadStartParams, ThreadTokenUsageUpdated, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::{Value, json};

/// Makes params of a thread whose provider has other settings.
fn with_provider(settings: &[(&str, Value)]) -> ThreadStartParams {
    let config = settings.iter().map(|(key, value)| (format!("model_providers.mock.{key}"), value.clone()));
    ThreadStartParams { config: Some(config.collect()), ..ThreadStartParams::default() }
}

/// Returns whether any request to the model contains the text.
fn was_sent(app: &App, text: &str) -> bool {
    app.model().requests().iter().any(|request| request.body().to_string().contains(text))
}

#[tokio::test]
async fn a_retried_response_leaves_no_fragment() {
    let script = Script::new().think("Ponder").unfinished().cut().say("half an ans").unfinished().cut();
    let mut app = App::start(script.say("the whole answer").then().say("later")).await;
    let thread = app.start_thread_with(with_provider(&[("stream_max_retries", json!(2))])).await;
    app.start_turn(&thread, "hi").await;
    let seen = app.rest().await;
    let shown: Vec<&str> = seen.lines().filter(|line| !line.contains("thread/")).collect();
    assert_eq!(
        shown,
        [
            "← turn/started inProgress",
            "← item/started userMessage <hi>",
            "← item/completed userMessage <hi>",
            "← item/started reasoning",
            "← item/reasoning/summaryPartAdded summaryIndex=0",
            "← item/reasoning/summaryTextDelta <Ponder>",
            "← item/completed reasoning",
            "← error <Reconnecting... 1/2> will retry",
            "← item/started agentMessage <>",
            "← item/agentMessage/delta <half an ans>",
            "← item/completed agentMessage <>",
            "← error <Reconnecting... 2/2> will retry",
            "← item/started agentMessage <>",
            "← item/agentMessage/delta <the whole answer>",
            "← item/completed agentMessage <the whole answer>",
            "← turn/completed completed",
        ]
    );
    let stored = app.read(&thread).await;
    assert_eq!(stored.turns[0].items.len(), 2, "{:?}", stored.turns[0].items);
    app.run_turn(&thread, "and?").await;
    assert!(was_sent(&app, "the whole answer") && !was_sent(&app, "half an ans"));
    app.rest().await;

    // The stored history is the same.
    app.model().push(Script::new().say("again"));
    let thread = app.restart().await.resume(&thread).await;
    app.run_turn(&thread, "once more").await;
    assert!(!was_sent(&app, "half an ans") && !was_sent(&app, "Ponder"));
    app.rest().await;
}

#[tokio::test]
async fn a_complete_item_of_a_broken_response_does_not_stay() {
    let script = Script::new().say("first attempt").cut().say("second attempt").then().say("later");
    let mut app = App::start(script).await;
    let thread = app.start_thread_with(with_provider(&[("stream_max_retries", json!(2))])).await;
    app.run_turn(&thread, "hi").await;
    let stored = app.read(&thread).await;
    let shown = format!("{:?}", stored.turns[0].items);
    assert!(shown.contains("second attempt") && !shown.contains("first attempt"), "{shown}");
    app.run_turn(&thread, "and?").await;
    assert!(was_sent(&app, "second attempt") && !was_sent(&app, "first attempt"));
    app.rest().await;
}

#[tokio::test]
async fn a_retry_says_its_reason() {
    let busy =
        Reply::status(529).body(json!({ "error": { "type": "overloaded_error", "message": "come back" } }));
    let mut app = App::start(Script::from(busy).say("fine")).await;
    let thread = app.start_thread_with(with_provider(&[("stream_max_retries", json!(2))])).await;
    app.start_turn(&thread, "hi").await;
    let error = app.until::<ErrorReported>().await;
    assert!(error.will_retry);
    assert_eq!(error.error.message, "Reconnecting... 1/2");
    let details = error.error.additional_details.unwrap();
    assert!(details.ends_with(": come back"), "{details}");
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    app.rest().await;
}

#[tokio::test]
async fn a_rate_limit_without_a_delay_is_retried() {
    let slow_down = Reply::status(429).body(json!({ "error": { "message": "slow down" } }));
    let mut app = App::start(Script::from(slow_down).say("fine")).await;
    let thread = app.start_thread_with(with_provider(&[("stream_max_retries", json!(1))])).await;
    assert_eq!(app.run_turn(&thread, "hi").await.status, TurnStatus::Completed);
    assert_eq!(app.model().requests().len(), 2);
    app.rest().await;
}

#[tokio::test]
async fn a_truncated_answer_is_kept_and_not_repeated() {
    for wire_api in ["responses", "chat", "anthropic"] {
        let script = Script::new()
            .say("Once upon a time")
            .usage(70, 0, 7, 0)
            .incomplete("max_output_tokens")
            .then()
            .say("there was");
        let mut app = App::start(script).await;
        let settings = [("stream_max_retries", json!(5)), ("wire_api", json!(wire_api))];
        let thread = app.start_thread_with(with_provider(&settings)).await;
        app.start_turn(&thread, "Tell me a story").await;
        let usage = app.until::<ThreadTokenUsageUpdated>().await.token_usage;
        assert_eq!((usage.last.input_tokens, usage.last.output_tokens), (70, 7), "{wire_api}");
        let ended = app.until::<TurnCompleted>().await.turn;
        assert_eq!(ended.status, TurnStatus::Failed, "{wire_api}");
        let message = ended.error.unwrap().message;
        assert!(message.ends_with("reason: max_output_tokens"), "{wire_api}: {message}");
        assert_eq!(app.model().requests().len(), 1, "{wire_api}");
        let stored = app.read(&thread).await;
        assert!(format!("{:?}", stored.turns[0].items).contains("Once upon a time"), "{wire_api}");

        // The model can continue it.
        app.run_turn(&thread, "Go on").await;
        assert!(was_sent(&app, "Once upon a time"), "{wire_api}");
        app.rest().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_truncated_within_a_message_is_kept() {
    let incomplete = json!({ "type": "response.incomplete", "response": {
        "id": "r", "incomplete_details": { "reason": "content_filter" } } });
    let script = Script::new().say("Once upon").unfinished().raw(incomplete).cut().say("there was");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let error = app.run_turn(&thread, "Tell me a story").await.error.unwrap();
    assert!(error.message.ends_with("reason: content_filter"), "{}", error.message);
    app.run_turn(&thread, "Go on").await;
    assert!(was_sent(&app, "Once upon"));
    app.rest().await;
}

#[tokio::test]
async fn a_first_message_that_does_not_fit_says_so() {
    let words = "the request exceeds the available context size (4096 tokens)";
    let refusal = || Reply::status(400).body(json!({ "error": { "message": words } }));
    let mut app = App::start(Script::from(refusal())).await;
    let thread = app.start_thread().await;
    let error = app.run_turn(&thread, "a very long message").await.error.unwrap();
    assert_eq!(error.codex_error_info, Some(CodexErrorInfo::ContextWindowExceeded));
    assert_eq!(error.additional_details.as_deref(), Some(words));
    assert!(error.message.starts_with("the first message"), "{}", error.message);

    // The thread goes on after a compaction; a later overflow says to compact.
    app.model().push(Script::new().say("summary").then().say("short answer").reply(refusal()));
    assert_eq!(app.run_turn(&thread, "short").await.status, TurnStatus::Completed);
    let error = app.run_turn(&thread, "long again").await.error.unwrap();
    assert!(error.message.contains("compact the thread"), "{}", error.message);
    app.rest().await;
}

#[tokio::test]
async fn an_overflow_within_a_stream_is_recognised() {
    let words = "Your input exceeds the context window of this model: 300000 > 272000";
    for (code, wire_api) in
        [("server_error", "responses"), ("invalid_request_error", "anthropic"), ("x", "chat")]
    {
        let mut app = App::start(Script::new().fail(code, words)).await;
        let thread = app.start_thread_with(with_provider(&[("wire_api", json!(wire_api))])).await;
        let error = app.run_turn(&thread, "hi").await.error.unwrap();
        assert_eq!(error.codex_error_info, Some(CodexErrorInfo::ContextWindowExceeded), "{wire_api}");
        assert_eq!(error.additional_details.as_deref(), Some(words), "{wire_api}");
        app.rest().await;
    }
}

#[tokio::test]
async fn a_usage_limit_within_a_stream_is_one() {
    let mut app = App::start(Script::new().fail("usage_limit_reached", "limit")).await;
    let thread = app.start_thread_with(with_provider(&[("stream_max_retries", json!(5))])).await;
    let error = app.run_turn(&thread, "hi").await.error.unwrap();
    assert_eq!(error.codex_error_info, Some(CodexErrorInfo::UsageLimitExceeded));
    assert_eq!(app.model().requests().len(), 1);
    app.rest().await;
}

#[tokio::test]
async fn a_provider_that_hangs_up_failed_to_open_the_stream() {
    let mut app = App::start(Script::from(Reply::hang_up())).await;
    let thread = app.start_thread().await;
    let error = app.run_turn(&thread, "hi").await.error.unwrap();
    let expected = CodexErrorInfo::ResponseStreamConnectionFailed { http_status_code: None };
    assert_eq!(error.codex_error_info, Some(expected));
    app.rest().await;
}

#[tokio::test]
async fn the_words_of_the_provider_are_shown() {
    let check = async |reply: Reply, expected: &str| {
        let mut app = App::start(Script::from(reply)).await;
        let thread = app.start_thread().await;
        let message = app.run_turn(&thread, "hi").await.error.unwrap().message;
        assert!(message.contains(expected), "{message}");
        app.rest().await;
    };
    let error = |message: &str| json!({ "error": { "message": message } });
    check(Reply::status(400).body(error("no such parameter")), "no such parameter, answer: {").await;
    check(Reply::status(500).body(error("the GPU is gone")), ": the GPU is gone").await;
    check(Reply::status(500).body_text("upstream timed out\n"), ": upstream timed out").await;
    check(Reply::status(429).body(error("slow down")), "429 Too Many Requests: slow down").await;
    check(Reply::status(502).body_text("bad gateway"), "502 Bad Gateway: bad gateway, url: ").await;
    check(Reply::status(200).body(error("the model is not loaded")), "the model is not loaded").await;
}

#[tokio::test]
async fn a_whole_answer_is_a_turn() {
    let answer = json!({ "id": "c", "object": "chat.completion", "choices": [{ "finish_reason": "stop",
        "message": { "role": "assistant", "content": "not streamed" } }], "usage": { "prompt_tokens": 9 } });
    let mut app = App::start(Script::from(Reply::status(200).body(answer))).await;
    let thread = app.start_thread_with(with_provider(&[("wire_api", json!("chat"))])).await;
    assert_eq!(app.run_turn(&thread, "hi").await.status, TurnStatus::Completed);
    assert!(format!("{:?}", app.read(&thread).await.turns[0].items).contains("not streamed"));
    app.rest().await;
}

#[tokio::test]
async fn reasoning_goes_back_within_a_tool_loop() {
    let script = Script::new()
        .think_raw("I should look.")
        .call("exec_command", json!({ "cmd": "true" }))
        .then()
        .say("Nothing there.")
        .then()
        .say("Again.");
    let mut app = App::start(script).await;
    let thread = app.start_thread_with(with_provider(&[("wire_api", json!("chat"))])).await;
    app.run_turn(&thread, "look").await;
    app.run_turn(&thread, "again").await;
    app.rest().await;

    let requests = app.model().requests();
    let reasoning = |at: usize| {
        let messages = requests[at].body()["messages"].as_array().unwrap().clone();
        messages
            .iter()
            .filter_map(|message| message["reasoning_content"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!((reasoning(1), reasoning(2)), (vec!["I should look.".to_owned()], vec![]));
}
