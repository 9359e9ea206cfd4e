//! Clients with a cursor and very many messages: readers that are too slow, and streams without a record in between.

use std::collections::BTreeMap;

use codicil_protocol::{
    AgentMessageDelta, CodicilBehind, CodicilSubscribeResponse, MessageSeq, NotificationMethod,
    SnapshotReason, Thread, ThreadId,
};
use codicil_testkit::{App, FoldedThread, ReceivedMessage, Script, TestClient};

use crate::cursor::{replayed, start_thread, subscribe, until_turn_end};

/// With its delta and its completed item, a turn with such a message is more than 8 MiB.
const LONG_TEXT: usize = 9 << 19;

/// What a client knows of several threads.
#[derive(Default)]
struct FoldedThreads(BTreeMap<ThreadId, (Thread, FoldedThread)>);

impl FoldedThreads {
    fn add(&mut self, message: &ReceivedMessage) {
        let id = message.params["threadId"].as_str().map(ThreadId::from);
        if let Some((_, known)) = id.and_then(|id| self.0.get_mut(&id)) {
            known.add(message);
        }
    }
}

/// Starts a thread that another client follows as well.
async fn followed_thread(app: &mut App, reader: &mut TestClient, known: &mut FoldedThreads) -> Thread {
    let (thread, begin) = start_thread(app).await;
    subscribe(reader, &thread, begin.after()).await;
    known.0.insert(thread.id.clone(), (thread.clone(), begin));
    thread
}

#[tokio::test]
async fn a_slow_reader_stays_connected_and_catches_up() {
    let mut script =
        Script::new().say_deltas((0..300).map(|number| format!("{number} ")).collect::<Vec<_>>());
    for _ in 0..4 {
        script = script.then().say("x".repeat(LONG_TEXT));
    }
    script = script.then().say("In between");
    for _ in 0..4 {
        script = script.then().say("y".repeat(LONG_TEXT));
    }
    script = script.then().say("After all");
    let mut app = App::builder().script(script).cursor().start().await;
    let mut slow = app.another_client().await;
    let mut known = FoldedThreads::default();
    let short = followed_thread(&mut app, &mut slow, &mut known).await;
    let mut long = Vec::new();
    for _ in 0..4 {
        long.push(followed_thread(&mut app, &mut slow, &mut known).await);
    }

    // From here on the slow client reads nothing. The first turn fills its transport, the others its queue.
    app.run_turn(&short, "Count").await;
    for thread in &long {
        app.run_turn(thread, "At length").await;
    }
    app.run_turn(&short, "Again").await;
    for thread in &long {
        app.run_turn(thread, "At length").await;
    }

    let mut behind: BTreeMap<ThreadId, MessageSeq> = BTreeMap::new();
    while behind.len() < known.0.len() {
        let message = slow.next_received().await.expect("the slow client stays connected");
        if message.method != CodicilBehind::NAME {
            known.add(&message);
            continue;
        }
        let after = serde_json::from_value(message.params["after"].clone()).unwrap();
        let again = behind.insert(message.params["threadId"].as_str().unwrap().into(), after);
        assert_eq!(again, None, "once for each thread");
    }

    for (thread, folded) in known.0.values_mut() {
        assert!(behind[&thread.id] >= folded.after().unwrap(), "all messages up to there have arrived");
        let answer = subscribe(&mut slow, thread, folded.after()).await;
        folded.subscribed(&answer);
        if thread.id == short.id {
            replayed(&mut slow, &answer).await.iter().for_each(|message| folded.add(message));
        } else {
            let CodicilSubscribeResponse::Snapshot { why, .. } = &answer else { panic!("{answer:?}") };
            assert_eq!(*why, Some(SnapshotReason::TooFar));
        }
        folded.check(&app.read(thread).await);
    }
    app.run_turn(&short, "And now?").await;
    let (_, folded) = known.0.get_mut(&short.id).unwrap();
    until_turn_end(&mut slow).await.iter().for_each(|message| folded.add(message));
    folded.check(&app.read(&short).await);
}

#[tokio::test]
async fn positions_of_a_very_long_stream_continue_at_a_record() {
    const DELTAS: usize = 70_000;
    let script = Script::new().say_deltas(vec!["ab"; DELTAS]).unfinished().gate("more").say("The end");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, begin) = start_thread(&mut app).await;
    let mut known = begin.clone();
    app.start_turn(&thread, "Count").await;
    let mut text = 0;
    let mut positions = Vec::new();
    while text < 2 * DELTAS {
        let message = app.next_received().await.unwrap();
        // Fails if a position is not greater than the one before.
        known.add(&message);
        if message.method == AgentMessageDelta::NAME {
            text += message.params["delta"].as_str().unwrap().len();
            positions.push(message.seq.unwrap());
        }
    }
    let ordinals: Vec<_> = [positions.first(), positions.last()].map(|seq| seq.unwrap() >> 20).into();
    assert!(ordinals[0] < ordinals[1], "{ordinals:?}");

    let mut others = Vec::new();
    for after in [begin.after(), known.after()] {
        let mut other = app.another_client().await;
        let mut folded = if after == begin.after() { begin.clone() } else { known.clone() };
        let answer = subscribe(&mut other, &thread, after).await;
        folded.subscribed(&answer);
        replayed(&mut other, &answer).await.iter().for_each(|message| folded.add(message));
        others.push((other, folded));
    }
    app.model().release("more");
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));
    let stored = app.read(&thread).await;
    known.check(&stored);
    for (mut other, mut folded) in others {
        until_turn_end(&mut other).await.iter().for_each(|message| folded.add(message));
        folded.check(&stored);
    }
    app.restart().await;
    let answer = subscribe(&mut app, &thread, begin.after()).await;
    let mut folded = begin;
    folded.subscribed(&answer);
    replayed(&mut app, &answer).await.iter().for_each(|message| folded.add(message));
    folded.check(&stored);
}
