//! Queues of threads: submissions that wait for turns of their own.

use codicil_protocol::{
    QueuedSubmission, Thread, ThreadItem, ThreadQueueAdd, ThreadQueueChanged, ThreadQueueDelete,
    ThreadQueueList, ThreadQueueReorder, ThreadQueueStart, ThreadQueueUpdate, ThreadResume, TurnCompleted,
    TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

fn of<T: serde::de::DeserializeOwned>(thread: &Thread, mut params: Value) -> T {
    params["threadId"] = json!(thread.id);
    from_value(params).unwrap()
}

fn text(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

async fn start(script: Script) -> App {
    App::builder().experimental().script(script).start().await
}

async fn add(app: &mut App, thread: &Thread, words: &str) -> QueuedSubmission {
    let params = json!({ "input": text(words), "clientUserMessageId": format!("c-{words}") });
    app.call::<ThreadQueueAdd>(of(thread, params)).await.queued_submission
}

async fn queued(app: &mut App, thread: &Thread) -> Vec<String> {
    let list = app.call::<ThreadQueueList>(of(thread, json!({}))).await;
    list.data.into_iter().map(|submission| submission.client_user_message_id).collect()
}

/// Returns the client ids of the user messages of a thread.
async fn sent(app: &mut App, thread: &Thread) -> Vec<Option<String>> {
    let items = app.read(thread).await.turns.into_iter().flat_map(|turn| turn.items);
    items
        .filter_map(|item| match item {
            ThreadItem::UserMessage { client_id, .. } => Some(client_id),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn submissions_become_turns_in_their_order() {
    let script = Script::new().say("one").gate("g").then().say("two").then().say("three").then().say("four");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "first").await;
    app.model().reached("g").await;
    let a = add(&mut app, &thread, "a").await;
    let b = add(&mut app, &thread, "b").await;
    let c = add(&mut app, &thread, "c").await;
    let changed = json!({ "queuedSubmissionId": b.id, "input": text("B") });
    app.call::<ThreadQueueUpdate>(of(&thread, changed)).await;
    let order = json!({ "queuedSubmissionIds": [c.id, a.id, b.id] });
    app.call::<ThreadQueueReorder>(of(&thread, order)).await;
    let gone = json!({ "queuedSubmissionId": a.id });
    assert!(app.call::<ThreadQueueDelete>(of(&thread, gone.clone())).await.deleted);
    assert!(!app.call::<ThreadQueueDelete>(of(&thread, gone)).await.deleted);
    assert_eq!(queued(&mut app, &thread).await, ["c-c", "c-b"]);
    add(&mut app, &thread, "d").await;
    app.model().release("g");
    for _ in 0..4 {
        assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    }
    assert_eq!(queued(&mut app, &thread).await, [""; 0]);
    let ids = ["c-c", "c-b", "c-d"].map(|id| Some(id.to_owned()));
    assert_eq!(sent(&mut app, &thread).await[1..], ids);
    app.ignore_rest();
}

#[tokio::test]
async fn an_idle_thread_starts_at_once_and_a_failed_turn_does_not_stop_the_queue() {
    let script = Script::new().gate("g").fail("server_error", "boom").then().say("two");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    add(&mut app, &thread, "a").await;
    app.until::<ThreadQueueChanged>().await;
    app.model().reached("g").await;
    add(&mut app, &thread, "b").await;
    app.model().release("g");
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Failed);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    app.ignore_rest();
}

#[tokio::test]
async fn an_interrupt_pauses_the_queue_until_a_turn_of_the_user_completes() {
    let script = Script::new().gate("never").then().say("two").then().say("three").then().say("four");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("never").await;
    add(&mut app, &thread, "a").await;
    let busy = app.try_call::<ThreadQueueStart>(of(&thread, json!({}))).await.unwrap_err();
    assert_eq!(busy.message, "thread already has an active or pending turn");
    app.interrupt(&turn).await;
    app.until::<TurnCompleted>().await;
    add(&mut app, &thread, "b").await;
    assert_eq!(queued(&mut app, &thread).await, ["c-a", "c-b"]);
    app.run_turn(&thread, "second").await;
    for _ in 0..2 {
        app.until::<TurnCompleted>().await;
    }
    let expected = [None, None, Some("c-a".to_owned()), Some("c-b".to_owned())];
    assert_eq!(sent(&mut app, &thread).await, expected);
    let empty = app.try_call::<ThreadQueueStart>(of(&thread, json!({}))).await.unwrap_err();
    assert_eq!(empty.message, "queue is empty");
    app.ignore_rest();
}

#[tokio::test]
async fn a_queue_survives_a_restart_and_waits_until_it_is_started() {
    let script = Script::new().gate("never").then().say("two").then().say("three");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("never").await;
    add(&mut app, &thread, "a").await;
    app.interrupt(&turn).await;
    app.until::<TurnCompleted>().await;
    app.rest().await;
    app.restart().await;
    let b = add(&mut app, &thread, "b").await;
    assert_eq!(queued(&mut app, &thread).await, ["c-a", "c-b"]);
    let refused = app.try_call::<ThreadQueueStart>(of(&thread, json!({}))).await.unwrap_err();
    assert_eq!(refused.message, "resume the thread before starting a queued message");
    app.call::<ThreadResume>(of(&thread, json!({}))).await;
    assert_eq!(queued(&mut app, &thread).await, ["c-a", "c-b"]);
    app.call::<ThreadQueueStart>(of(&thread, json!({ "queuedSubmissionId": b.id }))).await;
    for _ in 0..2 {
        app.until::<TurnCompleted>().await;
    }
    let expected = [None, Some("c-b".to_owned()), Some("c-a".to_owned())];
    assert_eq!(sent(&mut app, &thread).await, expected);
    app.ignore_rest();
}

#[tokio::test]
async fn a_queue_that_no_interrupt_has_paused_goes_on_when_its_thread_is_resumed() {
    let script =
        Script::new().say("one").then().say("two").then().fail("server_error", "boom").then().say("x");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "first").await;
    app.rest().await;
    app.restart().await;
    for words in ["a", "b", "c"] {
        add(&mut app, &thread, words).await;
    }
    app.call::<ThreadResume>(of(&thread, json!({ "excludeTurns": true }))).await;
    for _ in 0..3 {
        app.until::<TurnCompleted>().await;
    }
    assert_eq!(queued(&mut app, &thread).await, [""; 0]);
    let ids = ["c-a", "c-b", "c-c"].map(|id| Some(id.to_owned()));
    assert_eq!(sent(&mut app, &thread).await[1..], ids);
    app.ignore_rest();
}

#[tokio::test]
async fn an_interrupt_pauses_a_queue_that_is_still_empty_and_a_failed_turn_continues_it() {
    let script = Script::new().gate("never").then().fail("server_error", "boom").then().say("three");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("never").await;
    app.interrupt(&turn).await;
    app.until::<TurnCompleted>().await;
    add(&mut app, &thread, "a").await;
    app.rest().await;
    assert_eq!(queued(&mut app, &thread).await, ["c-a"]);
    app.start_turn(&thread, "second").await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Failed);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(queued(&mut app, &thread).await, [""; 0]);
    app.ignore_rest();
}

#[tokio::test]
async fn a_repeated_request_with_a_key_adds_one_submission() {
    let script = Script::new().gate("never");
    let mut app = App::builder().experimental().extension().script(script).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "first").await;
    app.model().reached("never").await;
    let params = json!({ "threadId": thread.id, "input": text("a"), "clientUserMessageId": "c-a" });
    let first = app.keyed("thread/queue/add", &params, "k").await;
    let again = app.keyed("thread/queue/add", &params, "k").await;
    assert_eq!((&first.result, first.is_replayed), (&again.result, false));
    assert!(again.is_replayed);
    assert_eq!(queued(&mut app, &thread).await, ["c-a"]);
    app.ignore_rest();
}

#[tokio::test]
async fn unknown_threads_and_full_queues_are_refused() {
    let mut app = start(Script::new().gate("never")).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "first").await;
    app.model().reached("never").await;
    for number in 0..100 {
        add(&mut app, &thread, &number.to_string()).await;
    }
    let more = json!({ "input": text("x"), "clientUserMessageId": "c" });
    let full = app.try_call::<ThreadQueueAdd>(of(&thread, more)).await.unwrap_err();
    assert_eq!(full.message, "queue cannot contain more than 100 submissions");
    let whole = app.call::<ThreadQueueList>(of(&thread, json!({ "limit": 100 }))).await;
    assert_eq!((whole.data.len(), whole.next_cursor), (100, None));
    let unknown = json!({ "threadId": "01a1e2fc-62af-7df2-8f62-961e76c889bb" });
    let error = app.try_call::<ThreadQueueList>(from_value(unknown).unwrap()).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.starts_with("failed to read thread: "), "{}", error.message);
    app.ignore_rest();
}
