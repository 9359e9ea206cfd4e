use std::sync::LazyLock;

use codicil_protocol::{
    AgentMessageDelta, CommandExecutionOutputDelta, NotificationMethod, ReasoningTextDelta, ThreadArchived,
    ThreadArchivedNotification,
};
use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A frame of about this many bytes that joins with nothing.
fn filler(bytes: usize) -> Frame {
    let params = ThreadArchivedNotification { thread_id: "x".repeat(bytes).into() };
    Frame::notification::<ThreadArchived>(&params)
}

/// Made once: writing megabytes takes long.
static LARGE: LazyLock<Frame> = LazyLock::new(|| filler(JOIN_DELTAS_BYTES));

/// How many large frames it takes until nothing more may wait.
fn to_the_ceiling() -> usize {
    MAX_WAITING_BYTES / LARGE.bytes().len() + 1
}

fn delta<N: NotificationMethod>(item: &str, delta: &str) -> Frame {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": item, "delta": delta, "contentIndex": 0 });
    Frame::notification::<N>(&serde_json::from_value(params).unwrap())
}

fn message(item: &str, text: &str) -> Frame {
    delta::<AgentMessageDelta>(item, text)
}

fn output(item: &str, text: &str) -> Frame {
    delta::<CommandExecutionOutputDelta>(item, text)
}

/// What waits, without waiting for more. Large fillers are null: reading them takes long.
fn waiting(outbox: &ClientOutbox) -> Vec<Value> {
    let batch = outbox.take().now_or_never().flatten().unwrap_or_default();
    let read = |message: &Bytes| match message.len() {
        0..=MAX_JOINED_BYTES => serde_json::from_slice(message).unwrap(),
        _ => Value::Null,
    };
    batch.iter().map(read).collect()
}

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["params"]["delta"].as_str().unwrap_or("-")).collect()
}

#[test]
fn a_client_is_busy_until_its_writer_has_taken_what_waits() {
    let outbox = ClientOutbox::default();
    outbox.push(&filler(BUSY_BYTES - 1000));
    assert!(!outbox.is_busy());
    outbox.push(&filler(1000));
    assert!(outbox.is_busy());

    let batch = outbox.take().now_or_never().flatten().unwrap();
    assert_eq!(batch.len(), 2);
    assert!(!outbox.is_busy(), "the client may have read it already");
    outbox.push(&filler(BUSY_BYTES + 1));
    assert!(outbox.is_busy());
}

#[test]
fn nothing_is_read_from_a_client_that_has_too_much_to_read() {
    let outbox = ClientOutbox::default();
    outbox.push(&filler(1));
    assert!(outbox.wait_for_room().now_or_never().is_some());
    outbox.push(&LARGE);

    let mut room = Box::pin(outbox.wait_for_room());
    assert!((&mut room).now_or_never().is_none());
    assert_eq!(waiting(&outbox).len(), 2);
    assert!((&mut room).now_or_never().is_none(), "the writer still holds it");
    assert!(outbox.take().now_or_never().is_none());
    assert!(room.now_or_never().is_some());
}

#[test]
fn a_producer_without_end_waits_for_its_reader() {
    let outbox = ClientOutbox::default();
    let piece = filler(350 << 10);
    let pushed = || outbox.push_when_room(&piece).now_or_never().is_some();
    assert_eq!((0..10).filter(|_| pushed()).count(), 2);
    assert!(!outbox.is_busy(), "requests of the client are still served");

    let (mut one, mut other) =
        (Box::pin(outbox.push_when_room(&piece)), Box::pin(outbox.push_when_room(&piece)));
    assert!((&mut one).now_or_never().is_none() && (&mut other).now_or_never().is_none());
    assert_eq!(waiting(&outbox).len(), 2);
    assert!((&mut one).now_or_never().is_none(), "the writer still holds it");
    assert!(outbox.take().now_or_never().is_none());
    assert!(one.now_or_never().is_some() && (&mut other).now_or_never().is_some());
    assert!(!pushed(), "together they keep to the ceiling");

    let mut late = Box::pin(outbox.push_when_room(&piece));
    assert!((&mut late).now_or_never().is_none());
    outbox.finish();
    assert!(late.now_or_never().is_some(), "nobody waits for a client that is gone");
    assert_eq!(waiting(&outbox).len(), 2, "and nothing more is taken");
}

#[test]
fn deltas_stay_apart_while_the_client_keeps_up() {
    let outbox = ClientOutbox::default();
    outbox.push(&message("i", "one"));
    outbox.push(&message("i", "two"));
    assert_eq!(texts(&waiting(&outbox)), ["one", "two"]);
}

#[test]
fn deltas_of_one_item_are_joined_when_it_does_not() {
    let outbox = ClientOutbox::default();
    outbox.push(&LARGE);
    outbox.push(&message("i", "one "));
    outbox.push(&message("i", "\"two\"\n"));
    outbox.push(&message("i", "thrée"));
    outbox.push(&message("j", "other item"));
    outbox.push(&output("j", "other kind"));
    outbox.push(&filler(1));
    outbox.push(&output("j", "after something else"));
    outbox.push(&output("j", ", joined"));
    assert_eq!(
        texts(&waiting(&outbox)[1..]),
        ["one \"two\"\nthrée", "other item", "other kind", "-", "after something else, joined"]
    );
}

#[test]
fn a_joined_delta_has_a_largest_size() {
    let outbox = ClientOutbox::default();
    outbox.push(&filler(JOIN_DELTAS_BYTES));
    let part = "y".repeat(MAX_JOINED_BYTES / 4);
    (0..8).for_each(|_| outbox.push(&message("i", &part)));
    let messages = waiting(&outbox);
    let longest = messages[1..].iter().map(|message| message.to_string().len()).max().unwrap();
    assert!(longest <= MAX_JOINED_BYTES, "{longest}");
    assert!(messages.len() < 8, "some were joined");
    assert_eq!(texts(&messages[1..]).concat().len(), 8 * part.len());
}

#[test]
fn a_client_that_stopped_reading_is_let_go_at_the_ceiling() {
    let outbox = ClientOutbox::default();
    (0..to_the_ceiling()).for_each(|_| outbox.push(&LARGE));
    assert_eq!(outbox.closed(), None);
    let mut end = Box::pin(outbox.wait_closed());
    assert!((&mut end).now_or_never().is_none());

    outbox.push(&filler(1));

    assert_eq!(outbox.closed(), Some(OutboxClosed::TooSlow));
    assert!(end.now_or_never().is_some());
    assert_eq!(outbox.take().now_or_never(), Some(None), "what waited is dropped");
    outbox.push(&filler(1));
    assert_eq!(outbox.take().now_or_never(), Some(None), "and nothing more is taken");
    assert!(!outbox.is_busy(), "its memory is free");
}

#[test]
fn what_the_writer_holds_counts_towards_the_ceiling() {
    let outbox = ClientOutbox::default();
    outbox.push(&LARGE);
    assert_eq!(outbox.take().now_or_never().flatten().unwrap().len(), 1);
    (1..to_the_ceiling()).for_each(|_| outbox.push(&LARGE));
    assert_eq!(outbox.closed(), None);
    outbox.push(&filler(1));
    assert_eq!(outbox.closed(), Some(OutboxClosed::TooSlow));
}

#[test]
fn a_finished_outbox_gives_what_it_holds_and_then_ends() {
    let outbox = ClientOutbox::default();
    outbox.push(&message("i", "last words"));
    outbox.finish();
    outbox.push(&message("i", "too late"));
    assert_eq!(texts(&waiting(&outbox)), ["last words"]);
    assert_eq!(outbox.take().now_or_never(), Some(None));
    assert_eq!(outbox.closed(), Some(OutboxClosed::Finished));
}

#[tokio::test]
async fn a_writer_that_waits_is_woken() {
    let outbox = ClientOutbox::default();
    let writer = async { (outbox.take().await, outbox.take().await) };
    let others = async {
        tokio::task::yield_now().await;
        outbox.push(&message("i", "hello"));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        outbox.finish();
    };
    let ((first, second), ()) = tokio::join!(writer, others);
    assert_eq!((first.map(|batch| batch.len()), second), (Some(1), None));
}

#[derive(Clone, Debug)]
enum Step {
    Delta(&'static str, u8, String),
    Other(u8),
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    let method = prop_oneof![
        Just(AgentMessageDelta::NAME),
        Just(CommandExecutionOutputDelta::NAME),
        Just(ReasoningTextDelta::NAME)
    ];
    prop_oneof![
        8 => (method, 0..3u8, any::<String>()).prop_map(|(method, item, text)| Step::Delta(method, item, text)),
        1 => (0..3u8).prop_map(Step::Other),
        1 => Just(Step::Take),
    ]
}

/// The story that messages tell: texts of one item in a row are one text.
fn story(messages: &[Value]) -> Vec<(String, String)> {
    let mut story: Vec<(String, String)> = Vec::new();
    for message in messages {
        let params = &message["params"];
        let subject = format!("{} {} {}", message["method"], params["itemId"], params["threadId"]);
        let text = params["delta"].as_str().unwrap_or_default();
        match story.last_mut() {
            Some((last, told)) if *last == subject && params["delta"].is_string() => told.push_str(text),
            _ => story.push((subject, text.to_owned())),
        }
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn joining_changes_neither_text_nor_order(steps in proptest::collection::vec(step(), 0..60)) {
        let outbox = ClientOutbox::default();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        outbox.push(&LARGE);
        for step in &steps {
            let frame = match step {
                Step::Delta(AgentMessageDelta::NAME, item, text) => message(&format!("i{item}"), text),
                Step::Delta(CommandExecutionOutputDelta::NAME, item, text) => output(&format!("i{item}"), text),
                Step::Delta(_, item, text) => delta::<ReasoningTextDelta>(&format!("i{item}"), text),
                Step::Other(size) => filler(usize::from(*size)),
                Step::Take => {
                    received.extend(waiting(&outbox));
                    outbox.push(&LARGE);
                    continue;
                }
            };
            sent.push(serde_json::from_slice::<Value>(frame.bytes()).unwrap());
            outbox.push(&frame);
        }
        received.extend(waiting(&outbox));
        received.retain(|message| !message.is_null());
        prop_assert_eq!(story(&received), story(&sent));
    }
}
