//! Event streams, and turns followed through them.

use codicil_client::{Client, ClientEvent, protocol::*, turn};
use futures_util::StreamExt;
use serde_json::json;

use crate::{
    fake::{connected, message, running},
    soon,
};

#[tokio::test]
async fn a_turn_can_be_followed_and_steered_while_it_runs() {
    let (mut fake, client) = connected(Client::builder()).await;
    let starting = tokio::spawn(async move { client.turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    let mut running_turn = soon(starting).await.unwrap().unwrap();
    assert_eq!((&**running_turn.id(), &**running_turn.thread_id()), ("u", "t"));
    assert_eq!(running_turn.session_id(), "t-u");

    for delta in ["Hel", "lo"] {
        let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "delta": delta });
        fake.notify("item/agentMessage/delta", params).await;
        let Some(ClientEvent::Notification(ServerNotification::AgentMessageDelta(seen))) =
            soon(running_turn.next()).await
        else {
            panic!("a delta");
        };
        assert_eq!(seen.delta, delta);
    }
    let (steered, ()) = tokio::join!(running_turn.steer("More"), async {
        let request = fake.expect("turn/steer").await;
        fake.reply(&request, json!({ "turnId": "u" })).await;
    });
    assert_eq!(&*steered.unwrap(), "u");
    fake.complete("t", "u").await;
    assert!(matches!(
        soon(running_turn.next()).await,
        Some(ClientEvent::Notification(ServerNotification::TurnCompleted(_)))
    ));
    assert_eq!(soon(running_turn.next()).await, None);
    let done = soon(running_turn.finish()).await.unwrap();
    assert_eq!(done.agent_message, "Hello", "a message without a completed item consists of its deltas");
}

#[tokio::test]
async fn turns_on_different_threads_do_not_mix() {
    let (mut fake, client) = connected(Client::builder()).await;
    let run = |thread: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.run_turn(turn(&thread.into(), "Hi")).await })
    };
    let one = run("t1");
    fake.take_turn("t1", "u1").await;
    let two = run("t2");
    fake.take_turn("t2", "u2").await;
    fake.item("t2", "u2", message("i", "two")).await;
    fake.item("t1", "u1", message("i", "one")).await;
    // Two turns run, so a notification without ids belongs to neither.
    fake.notify("turn/completed", json!({})).await;
    fake.item("t1", "another turn", message("i", "other")).await;
    fake.complete("t2", "u2").await;
    fake.complete("t1", "u1").await;
    let one = soon(one).await.unwrap().unwrap();
    let two = soon(two).await.unwrap().unwrap();
    assert_eq!((one.agent_message.as_str(), one.items.len()), ("one", 1));
    assert_eq!((two.agent_message.as_str(), two.items.len()), ("two", 1));
}

#[tokio::test]
async fn events_are_a_stream_of_all_threads_or_one() {
    let (fake, client) = connected(Client::builder()).await;
    let all = client.events();
    let one = client.thread_events(&"b".into());
    for thread in ["a", "b"] {
        fake.notify("turn/started", json!({ "threadId": thread, "turn": running("u") })).await;
    }
    drop(fake);
    let count = |stream: codicil_client::EventStream| soon(stream.count());
    assert_eq!((count(all).await, count(one).await), (2, 1));
}

#[tokio::test]
async fn dropping_a_running_turn_interrupts_it_and_detaching_does_not() {
    let (mut fake, client) = connected(Client::builder()).await;
    let mut start = async |turn_id: &'static str| {
        let client = client.clone();
        let starting = tokio::spawn(async move { client.turn(turn(&"t".into(), "Hi")).await });
        fake.take_turn("t", turn_id).await;
        soon(starting).await.unwrap().unwrap()
    };
    let detached = start("u1").await;
    let dropped = start("u2").await;
    detached.detach();
    drop(dropped);
    let request = fake.expect("turn/interrupt").await;
    assert_eq!(request["params"]["turnId"], "u2");
}

#[tokio::test]
async fn the_final_answer_is_preferred_to_commentary() {
    let (mut fake, client) = connected(Client::builder()).await;
    let turning = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    for (text, phase) in [("Looking", "commentary"), ("42", "final_answer"), ("Bye", "commentary")] {
        let mut item = message(text, text);
        item["phase"] = phase.into();
        fake.item("t", "u", item).await;
    }
    fake.complete("t", "u").await;
    assert_eq!(soon(turning).await.unwrap().unwrap().agent_message, "42");
}

#[tokio::test]
async fn items_of_an_unknown_type_are_kept() {
    let (mut fake, client) = connected(Client::builder()).await;
    let turning = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    fake.item("t", "u", json!({ "type": "hologram", "id": "i", "depth": 3 })).await;
    fake.complete("t", "u").await;
    let done = soon(turning).await.unwrap().unwrap();
    assert!(matches!(&done.items[0], ThreadItem::Unrecognized(_)), "{:?}", done.items);
}
