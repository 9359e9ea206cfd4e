//! Clients with a cursor and very many messages: readers that are too slow, and streams without a record in between.

use std::collections::BTreeMap;

use codicil_protocol::{
    AgentMessageDelta, CodicilBehind, Initialize, ItemCompleted, ItemStarted, MessageSeq, NotificationMethod,
    Thread, ThreadId,
};
use codicil_testkit::{App, FoldedThread, ReceivedMessage, Script, TestClient};
use serde_json::json;

use crate::cursor::{replayed, start_thread, subscribe, until_turn_end};

/// With its delta and its completed item, a turn with such a message is 3.8 MB. A replay has as much.
const LONG_TEXT: usize = 1_900_000;
/// The number of such turns that is more than a client may leave unread.
const LONG_TURNS: usize = 20;

/// Initializes a client with a cursor that does not want some notifications.
async fn initialize(client: &mut TestClient, opt_out: &[&str]) {
    let capabilities =
        json!({ "codicil": { "version": 1, "cursor": true }, "optOutNotificationMethods": opt_out });
    let hello = json!({ "clientInfo": { "name": "x", "version": "1" }, "capabilities": capabilities });
    client.call::<Initialize>(serde_json::from_value(hello).unwrap()).await;
}

/// Starts a thread that another client follows as well.
async fn followed_thread(app: &mut App, reader: &mut TestClient) -> (Thread, FoldedThread) {
    let (thread, known) = start_thread(app).await;
    subscribe(reader, &thread, known.after()).await;
    (thread, known)
}

#[tokio::test]
async fn a_slow_reader_stays_connected_and_catches_up() {
    let mut script =
        Script::new().say_deltas((0..300).map(|number| format!("{number} ")).collect::<Vec<_>>());
    for _ in 0..LONG_TURNS / 2 {
        script = script.then().say("x".repeat(LONG_TEXT));
    }
    script = script.then().say("In between");
    for _ in 0..LONG_TURNS / 2 {
        script = script.then().say("y".repeat(LONG_TEXT));
    }
    script = script.then().say("After all");
    let mut app = App::builder().uninitialized().script(script).start().await;
    // This client wants only the ends of turns.
    initialize(&mut app, &[ItemStarted::NAME, AgentMessageDelta::NAME, ItemCompleted::NAME]).await;
    let mut slow = app.another_client().await;
    initialize(&mut slow, &[]).await;
    let (short, mut known) = followed_thread(&mut app, &mut slow).await;
    let mut long = Vec::new();
    for _ in 0..LONG_TURNS {
        long.push(followed_thread(&mut app, &mut slow).await);
    }

    // From here on the slow client reads nothing. The first turn fills its transport, the others its queue.
    app.run_turn(&short, "Count").await;
    for (thread, _) in &long[..LONG_TURNS / 2] {
        app.run_turn(thread, "At length").await;
    }
    app.run_turn(&short, "Again").await;
    for (thread, _) in &long[LONG_TURNS / 2..] {
        app.run_turn(thread, "At length").await;
    }

    let mut behind: BTreeMap<ThreadId, MessageSeq> = BTreeMap::new();
    while !behind.contains_key(&short.id) {
        let message = slow.next_received().await.expect("the slow client stays connected");
        let thread: Option<ThreadId> = message.params["threadId"].as_str().map(Into::into);
        if message.method == CodicilBehind::NAME {
            let after = serde_json::from_value(message.params["after"].clone()).unwrap();
            assert_eq!(behind.insert(thread.unwrap(), after), None, "once for each thread");
        } else if thread == Some(short.id.clone()) {
            known.add(&message);
        }
    }

    assert!(behind[&short.id] >= known.after().unwrap(), "all messages up to there have arrived");
    let answer = subscribe(&mut slow, &short, Some(behind[&short.id])).await;
    let missed = replayed(&mut slow, &answer).await;
    let is_short = |message: &&ReceivedMessage| message.params["threadId"] == *short.id;
    missed.iter().filter(is_short).for_each(|message| known.add(message));
    known.check(&app.read(&short).await);
    let (thread, mut folded) = long.remove(0);
    let answer = subscribe(&mut slow, &thread, folded.after()).await;
    folded.subscribed(&answer);
    let missed = replayed(&mut slow, &answer).await;
    let is_thread =
        |message: &&ReceivedMessage| message.is_replay && message.params["threadId"] == *thread.id;
    missed.iter().filter(is_thread).for_each(|message| folded.add(message));
    folded.check(&app.read(&thread).await);
    app.run_turn(&short, "And now?").await;
    let live = until_turn_end(&mut slow).await;
    live.iter().filter(is_short).for_each(|message| known.add(message));
    known.check(&app.read(&short).await);
    slow.ignore_rest();
}

#[tokio::test]
async fn positions_of_a_very_long_stream_continue_at_a_record() {
    const DELTAS: usize = 20_000;
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
