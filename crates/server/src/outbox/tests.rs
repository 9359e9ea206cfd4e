use std::sync::LazyLock;

use codicil_protocol::{
    AgentMessageDelta, CommandExecutionOutputDelta, NotificationMethod, ReasoningTextDelta, ThreadArchived,
    ThreadArchivedNotification,
};
use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Makes a frame of about this many bytes that cannot be joined.
fn filler(bytes: usize) -> Frame {
    let params = ThreadArchivedNotification { thread_id: "x".repeat(bytes).into() };
    Frame::notification::<ThreadArchived>(&params)
}

/// Encoded once, because encoding megabytes takes long.
static LARGE: LazyLock<Frame> = LazyLock::new(|| filler(JOIN_DELTAS_BYTES));

/// Returns how many large frames exceed the limit of unread bytes.
fn frames_to_limit() -> usize {
    MAX_UNREAD_BYTES / LARGE.bytes().len() + 1
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

/// Takes the queued messages. Large fillers become null, because decoding them takes long.
fn queued(outbox: &ClientOutbox) -> Vec<Value> {
    let batch = outbox.take().now_or_never().flatten().unwrap_or_default();
    let decode = |message: &Bytes| match message.len() {
        0..=MAX_JOINED_BYTES => serde_json::from_slice(message).unwrap(),
        _ => Value::Null,
    };
    batch.iter().map(decode).collect()
}

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["params"]["delta"].as_str().unwrap_or("-")).collect()
}

#[test]
fn a_client_is_busy_until_its_writer_has_taken_the_queue() {
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
fn a_client_with_too_many_unread_bytes_is_not_read_from() {
    let outbox = ClientOutbox::default();
    outbox.push(&filler(1));
    assert!(outbox.wait_for_room().now_or_never().is_some());
    outbox.push(&LARGE);

    let mut room = Box::pin(outbox.wait_for_room());
    assert!((&mut room).now_or_never().is_none());
    assert_eq!(queued(&outbox).len(), 2);
    assert!((&mut room).now_or_never().is_none(), "the writer is still sending");
    assert!(outbox.take().now_or_never().is_none());
    assert!(room.now_or_never().is_some());
}

#[test]
fn a_producer_without_end_waits_for_the_client() {
    let outbox = ClientOutbox::default();
    let piece = filler(350 << 10);
    let try_push = || outbox.push_when_room(&piece).now_or_never().is_some();
    assert_eq!((0..10).filter(|_| try_push()).count(), 2);
    assert!(!outbox.is_busy(), "requests of the client are still served");

    let mut first = Box::pin(outbox.push_when_room(&piece));
    let mut second = Box::pin(outbox.push_when_room(&piece));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    assert_eq!(queued(&outbox).len(), 2);
    assert!((&mut first).now_or_never().is_none(), "the writer is still sending");
    assert!(outbox.take().now_or_never().is_none());
    assert!(first.now_or_never().is_some() && (&mut second).now_or_never().is_some());
    assert!(!try_push(), "all producers share the limit");

    let mut late = Box::pin(outbox.push_when_room(&piece));
    assert!((&mut late).now_or_never().is_none());
    outbox.finish();
    assert!(late.now_or_never().is_some(), "producers do not wait for a closed outbox");
    assert_eq!(queued(&outbox).len(), 2, "a closed outbox accepts no frames");
}

#[test]
fn deltas_are_not_joined_while_the_client_keeps_up() {
    let outbox = ClientOutbox::default();
    outbox.push(&message("i", "one"));
    outbox.push(&message("i", "two"));
    assert_eq!(texts(&queued(&outbox)), ["one", "two"]);
}

#[test]
fn deltas_of_one_item_are_joined_for_a_slow_client() {
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
        texts(&queued(&outbox)[1..]),
        ["one \"two\"\nthrée", "other item", "other kind", "-", "after something else, joined"]
    );
}

#[test]
fn a_joined_delta_has_a_maximum_length() {
    let outbox = ClientOutbox::default();
    outbox.push(&filler(JOIN_DELTAS_BYTES));
    let part = "y".repeat(MAX_JOINED_BYTES / 4);
    (0..8).for_each(|_| outbox.push(&message("i", &part)));
    let messages = queued(&outbox);
    let longest = messages[1..].iter().map(|message| message.to_string().len()).max().unwrap();
    assert!(longest <= MAX_JOINED_BYTES, "{longest}");
    assert!(messages.len() < 8, "some were joined");
    assert_eq!(texts(&messages[1..]).concat().len(), 8 * part.len());
}

#[test]
fn beyond_the_limit_the_outbox_closes() {
    let outbox = ClientOutbox::default();
    (0..frames_to_limit()).for_each(|_| outbox.push(&LARGE));
    assert_eq!(outbox.closed(), None);
    let mut end = Box::pin(outbox.wait_closed());
    assert!((&mut end).now_or_never().is_none());

    outbox.push(&filler(1));

    assert_eq!(outbox.closed(), Some(OutboxClosed::TooSlow));
    assert!(end.now_or_never().is_some());
    assert_eq!(outbox.take().now_or_never(), Some(None), "queued frames are dropped");
    outbox.push(&filler(1));
    assert_eq!(outbox.take().now_or_never(), Some(None), "a closed outbox accepts no frames");
    assert!(!outbox.is_busy(), "the memory is freed");
}

#[test]
fn the_batch_of_the_writer_counts_towards_the_limit() {
    let outbox = ClientOutbox::default();
    outbox.push(&LARGE);
    assert_eq!(outbox.take().now_or_never().flatten().unwrap().len(), 1);
    (1..frames_to_limit()).for_each(|_| outbox.push(&LARGE));
    assert_eq!(outbox.closed(), None);
    outbox.push(&filler(1));
    assert_eq!(outbox.closed(), Some(OutboxClosed::TooSlow));
}

#[test]
fn a_finished_outbox_can_be_emptied() {
    let outbox = ClientOutbox::default();
    outbox.push(&message("i", "last words"));
    outbox.finish();
    outbox.push(&message("i", "too late"));
    assert_eq!(texts(&queued(&outbox)), ["last words"]);
    assert_eq!(outbox.take().now_or_never(), Some(None));
    assert_eq!(outbox.closed(), Some(OutboxClosed::Finished));
}

#[tokio::test]
async fn a_waiting_writer_is_woken() {
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
    assert_eq!(first.map(|batch| batch.len()), Some(1));
    assert_eq!(second, None);
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

/// Joins the deltas of one item that follow each other.
fn joined(messages: &[Value]) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for message in messages {
        let params = &message["params"];
        let subject = format!("{} {} {}", message["method"], params["itemId"], params["threadId"]);
        let text = params["delta"].as_str().unwrap_or_default();
        match joined.last_mut() {
            Some((last, texts)) if *last == subject && params["delta"].is_string() => texts.push_str(text),
            _ => joined.push((subject, text.to_owned())),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn joining_changes_neither_text_nor_order(steps in proptest::collection::vec(step(), 0..60)) {
        let outbox = ClientOutbox::default();
        let mut sent = Vec::new();
        let mut received = Vec::new();
        outbox.push(&LARGE);
        for step in &steps {
            let frame = match step {
                Step::Delta(AgentMessageDelta::NAME, item, text) => message(&format!("i{item}"), text),
                Step::Delta(CommandExecutionOutputDelta::NAME, item, text) => output(&format!("i{item}"), text),
                Step::Delta(_, item, text) => delta::<ReasoningTextDelta>(&format!("i{item}"), text),
                Step::Other(size) => filler(usize::from(*size)),
                Step::Take => {
                    received.extend(queued(&outbox));
                    outbox.push(&LARGE);
                    continue;
                }
            };
            sent.push(serde_json::from_slice::<Value>(frame.bytes()).unwrap());
            outbox.push(&frame);
        }
        received.extend(queued(&outbox));
        received.retain(|message| !message.is_null());
        prop_assert_eq!(joined(&received), joined(&sent));
    }
}

/// Returns a frame of a thread at a position.
fn placed(frame: Frame, thread: &str, ordinal: u64) -> Frame {
    frame.at(MessagePlace::new(thread.into(), MessageSeq::durable(ordinal, 0)))
}

#[test]
fn positions_are_for_clients_with_a_cursor() {
    let plain = ClientOutbox::default();
    let with_cursor = ClientOutbox::default();
    with_cursor.use_cursor();
    let frame = placed(message("i", "one"), "t", 3);
    plain.push(&frame);
    with_cursor.push(&frame);
    with_cursor.push(&frame.clone().as_replay());
    let text =
        |batch: Vec<Bytes>| batch.iter().map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect();
    let sent: Vec<String> = text(plain.take().now_or_never().flatten().unwrap());
    assert_eq!(sent, [String::from_utf8(frame.bytes().to_vec()).unwrap()]);
    let open = sent[0].strip_suffix('}').unwrap();
    let sent: Vec<String> = text(with_cursor.take().now_or_never().flatten().unwrap());
    assert_eq!(
        sent,
        [format!("{open},\"seq\":3145728}}"), format!("{open},\"seq\":3145728,\"replay\":true}}")]
    );
}

#[test]
fn frames_for_some_clients_reach_only_those() {
    for (has_cursor, expected) in [(false, ["all", "plain"]), (true, ["all", "cursor"])] {
        let outbox = ClientOutbox::default();
        if has_cursor {
            outbox.use_cursor();
        }
        outbox.push(&message("i", "all"));
        outbox.push(&message("i", "plain").only_for(FrameAudience::WithoutCursor));
        outbox.push(&message("i", "cursor").only_for(FrameAudience::WithCursor));
        assert_eq!(texts(&queued(&outbox)), expected);
    }
}

#[test]
fn a_joined_delta_has_the_position_of_its_last_part() {
    let outbox = ClientOutbox::default();
    outbox.use_cursor();
    outbox.push(&LARGE);
    outbox.push(&placed(message("i", "one "), "t", 1));
    outbox.push(&placed(message("i", "two"), "t", 2));
    let messages = queued(&outbox);
    assert_eq!(texts(&messages[1..]), ["one two"]);
    assert_eq!(messages[1]["seq"], 2 << 20);
}

#[test]
fn a_slow_client_with_a_cursor_is_asked_to_subscribe_again() {
    let outbox = ClientOutbox::default();
    outbox.use_cursor();
    let approval = Frame::response(&codicil_protocol::rpc::RequestId::Integer(7), &json!({}));
    outbox.push(&approval);
    for ordinal in 0..frames_to_limit() as u64 + 1 {
        outbox.push(&placed(LARGE.clone(), "t", 10 + ordinal));
    }
    outbox.push(&placed(message("i", "dropped"), "t", 90));
    outbox.push(&placed(message("i", "other thread"), "u", 1));

    assert_eq!(outbox.closed(), None);
    let messages = queued(&outbox);
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str().unwrap_or("-")).collect();
    assert_eq!(methods, ["-", "codicil/behind", "item/agentMessage/delta"], "responses are kept");
    let after = messages[1]["params"]["after"].as_u64().unwrap();
    assert_eq!((after, after + 1), ((10 << 20) - 1, 10 << 20), "just before the first that was dropped");
    outbox.catch_up(&"t".into());
    outbox.push(&placed(message("i", "again"), "t", 91));
    assert_eq!(texts(&queued(&outbox)), ["again"]);
}
