//! Whole turns: interrupts, several clients, steering and compaction.

use codicil_protocol::{
    AgentMessageDelta, ItemCompleted, ReviewStart, ServerNotification, Thread, ThreadItem, TurnInterrupt,
    TurnInterruptParams, TurnStatus, TurnSteer,
};
use codicil_testkit::{App, Script};
use serde_json::json;

#[tokio::test]
async fn an_interrupted_turn_is_stored_as_interrupted() {
    let mut app = App::start(Script::new().say("Let me look").hang()).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Tidy the repo").await;
    app.until::<AgentMessageDelta>().await;

    app.interrupt(&turn).await;

    let rest = app.rest().await;
    assert!(rest.contains("← item/completed agentMessage <Let me look>"), "{rest}");
    assert!(rest.ends_with("← turn/completed interrupted"), "{rest}");
    let stored = app.restart().await.read(&thread).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn an_interrupt_of_another_turn_does_not_stop_the_running_one() {
    let mut app = App::start(Script::new().say("One").then().gate("go").say("Two")).await;
    let thread = app.start_thread().await;
    let first = app.run_turn(&thread, "first").await;
    let second = app.start_turn(&thread, "second").await;
    app.model().reached("go").await;

    let late = TurnInterruptParams { thread_id: thread.id.clone(), turn_id: first.id.clone() };
    let error = app.try_call::<TurnInterrupt>(late).await.unwrap_err();
    let expected = format!("expected active turn id `{}` but found `{}`", first.id, second.id);
    assert_eq!((error.code, error.message), (-32600, expected));

    app.model().release("go");
    let rest = app.rest().await;
    assert!(rest.ends_with("← turn/completed completed"), "{rest}");
}

#[tokio::test]
async fn the_reviewers_json_is_not_announced() {
    let json = r#"{"findings":[{"title":"Off by one","body":"Too far","priority":1,"confidence_score":0.9,
        "code_location":{"absolute_file_path":"/w/a.rs","line_range":{"start":1,"end":2}}}],
        "overall_correctness":"patch is incorrect","overall_explanation":"One problem.",
        "overall_confidence_score":0.9}"#;
    let script = Script::new()
        .say("Looking at the changes")
        .call("exec_command", json!({ "cmd": "true" }))
        .then()
        .say_deltas(json.split_inclusive(','));
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let target = json!({ "type": "custom", "instructions": "look" });
    let params = json!({ "threadId": thread.id, "target": target });
    app.call::<ReviewStart>(serde_json::from_value(params).unwrap()).await;

    let mut announced = Vec::new();
    loop {
        match app.next_notification().await.unwrap() {
            ServerNotification::ItemStarted(started) => announced.push(started.item),
            ServerNotification::AgentMessageDelta(delta) => panic!("{delta:?}"),
            ServerNotification::TurnCompleted(_) => break,
            _ => {}
        }
    }
    let texts = |items: &[ThreadItem]| -> Vec<String> {
        let text = |item: &ThreadItem| match item {
            ThreadItem::AgentMessage { text, .. } => Some(text.clone()),
            _ => None,
        };
        items.iter().filter_map(text).collect()
    };
    let messages = texts(&announced);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("Off by one — /w/a.rs:1-2"), "{messages:?}");
    assert_eq!(texts(&app.read(&thread).await.turns[0].items), messages);
    app.rest().await;
}

#[tokio::test]
async fn two_clients_see_the_same_turn() {
    let mut app = App::start(Script::new().say("Hello")).await;
    let mut other = app.another_client().await;
    let thread = app.start_thread().await;
    other.resume(&thread).await;
    other.rest().await;
    app.rest().await;

    app.run_turn(&thread, "Hi").await;

    let seen = other.rest().await;
    assert!(seen.contains("← item/completed agentMessage <Hello>"), "{seen}");
    assert!(seen.ends_with("← turn/completed completed"), "{seen}");
}

/// Later clients cannot decode a completed item without it.
#[tokio::test]
async fn an_interrupted_item_has_a_completion_time() {
    let mut app = App::start(Script::new().say("Let me").unfinished().hang()).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Tidy the repo").await;
    app.until::<AgentMessageDelta>().await;

    app.interrupt(&turn).await;

    let is_message = |item: &ThreadItem| matches!(item, ThreadItem::AgentMessage { .. });
    let completed = app.until_where::<ItemCompleted>(|completed| is_message(&completed.item)).await;
    assert!(completed.completed_at_ms.is_some());
    app.rest().await;
}

/// Accepted input must survive, even if the model never sees it.
#[tokio::test]
async fn steered_input_is_stored_when_it_is_accepted() {
    let mut app = App::start(Script::new().say("Let me look").hang()).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Tidy the repo").await;
    app.until::<AgentMessageDelta>().await;
    let params = json!({ "threadId": thread.id, "expectedTurnId": turn.id,
        "input": [{ "type": "text", "text": "And the tests" }] });
    app.call::<TurnSteer>(serde_json::from_value(params).unwrap()).await;

    let texts = |thread: &Thread| {
        let items = thread.turns[0].items.iter().filter_map(|item| match item {
            ThreadItem::UserMessage { content, .. } => Some(json!(content)[0]["text"].clone()),
            _ => None,
        });
        items.collect::<Vec<_>>()
    };
    assert_eq!(texts(&app.read(&thread).await), ["Tidy the repo", "And the tests"]);

    app.interrupt(&turn).await;
    let rest = app.rest().await;
    assert!(rest.contains("← item/completed userMessage <And the tests>"), "{rest}");
    assert_eq!(texts(&app.restart().await.read(&thread).await), ["Tidy the repo", "And the tests"]);
}

#[tokio::test]
async fn a_history_that_stays_too_long_is_compacted_once() {
    let script = Script::new().say("One").then().say("A summary").then().say("Two");
    let config = "model_auto_compact_token_limit = 1\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "first").await;

    app.start_turn(&thread, "second").await;

    let rest = app.rest().await;
    assert_eq!(rest.matches("← item/completed contextCompaction").count(), 1, "{rest}");
    assert!(rest.contains("← item/completed agentMessage <Two>"), "{rest}");
}

/// Otherwise a thread whose history outgrew its model could not go on.
#[tokio::test]
async fn a_history_that_is_too_long_to_compact_is_cut_first() {
    let script = Script::new().say("One").then().fail("context_length_exceeded", "too long");
    let script = script.then().say("A summary").then().say("Two");
    let config = "model_auto_compact_token_limit = 1\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "first").await;

    let turn = app.run_turn(&thread, "second").await;

    assert_eq!(turn.status, TurnStatus::Completed);
    let rest = app.rest().await;
    assert!(!rest.contains("← error"), "{rest}");
    let requests = app.model().requests();
    assert!(requests[2].input().len() < requests[1].input().len());
    assert_eq!(requests[2].last_user_text(), requests[1].last_user_text(), "the prompt stays");
}

#[tokio::test]
async fn an_unknown_model_reasons_if_the_configuration_enables_it() {
    for (config, reasons) in [("", false), ("model_supports_reasoning_summaries = true\n", true)] {
        let mut app = App::builder().config(config).script(Script::new().say("Ok")).start().await;
        let thread = app.start_thread().await;
        app.run_turn(&thread, "go").await;

        assert_eq!(app.model().requests()[0].body()["reasoning"].is_object(), reasons, "{config}");
        app.rest().await;
    }
}
