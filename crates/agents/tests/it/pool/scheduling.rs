//! The order of turns, and their interruption.

use std::time::Duration;

use codicil_agents::pool::{Pool, PoolSettings, ReplyStatus, StreamMessage, TurnScheduling};
use serde_json::json;

use super::{
    all, cold, failure,
    fake::{Connection, Fake, said},
    quick, soon, started, status, text,
};

/// Waits until this number of messages is waiting.
async fn until_waiting(pool: &Pool, count: u64) {
    soon(async {
        while pool.counts().turns_waiting != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn turns(connection: &Connection) -> usize {
    connection.seen("turn/start").len()
}

#[tokio::test]
async fn turns_run_one_at_a_time_in_order_without_ids_in_notifications() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let mut replies = Vec::new();
    for name in ["a", "b", "c", "d"] {
        replies.push((name, pool.agent().await.unwrap().ask(name)));
    }
    for (number, (name, reply)) in replies.into_iter().enumerate() {
        assert_eq!(connection.bare_turn().await, name);
        until_waiting(&pool, 3 - number as u64).await;
        assert_eq!(turns(&connection), number + 1, "the others wait");
        connection.bare_complete(name).await;
        assert_eq!(all(reply).await[0], text(name), "each reply has its own text");
    }
    pool.close().await;
}

#[tokio::test]
async fn an_agent_with_many_messages_does_not_delay_the_others() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let busy = pool.agent().await.unwrap();
    let other = pool.agent().await.unwrap();
    let _replies = [busy.ask("busy 1"), busy.ask("busy 2"), busy.ask("busy 3"), other.ask("other")];
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(connection.bare_turn().await);
        connection.bare_complete("ok").await;
    }
    assert_eq!(order, ["busy 1", "other", "busy 2", "busy 3"]);
    pool.close().await;
}

#[tokio::test]
async fn turns_run_in_parallel_once_a_notification_names_its_thread() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let one = pool.agent().await.unwrap();
    let other = pool.agent().await.unwrap();
    let one = one.ask("one");
    let other = other.ask("other");
    let (thread, turn) = connection.turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&connection), 1, "nothing is known of this server yet");
    let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
    connection.notify("turn/started", json!({ "threadId": thread, "turn": started })).await;
    let (second_thread, second_turn) = connection.turn().await;
    assert_eq!(pool.counts().turns_running, 2);
    connection.complete(&second_thread, &second_turn, "other").await;
    connection.complete(&thread, &turn, "one").await;
    assert_eq!((&all(one).await[0], &all(other).await[0]), (&text("one"), &text("other")));
    pool.close().await;
}

#[tokio::test]
async fn turns_run_one_at_a_time_again_after_a_notification_without_ids() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let first = pool.agent().await.unwrap().ask("first");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "named").await;
    all(first).await;
    let second = pool.agent().await.unwrap().ask("second");
    connection.bare_turn().await;
    connection.bare_complete("not named").await;
    all(second).await;
    let _one = pool.agent().await.unwrap().ask("one");
    let _other = pool.agent().await.unwrap().ask("other");
    connection.bare_turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&connection), 3);
    pool.close().await;
}

#[tokio::test]
async fn the_scheduling_can_be_configured() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, scheduling: TurnScheduling::Parallel, ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let _replies = [pool.agent().await.unwrap().ask("one"), pool.agent().await.unwrap().ask("other")];
    let mut both =
        [said(&connection.expect("turn/start").await), said(&connection.expect("turn/start").await)];
    both.sort();
    assert_eq!(both, ["one", "other"]);
    pool.close().await;

    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, scheduling: TurnScheduling::OneAtATime, ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let first = pool.agent().await.unwrap().ask("first");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "named").await;
    all(first).await;
    let _replies = [pool.agent().await.unwrap().ask("one"), pool.agent().await.unwrap().ask("other")];
    connection.turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&connection), 2);
    pool.close().await;
}

#[tokio::test]
async fn messages_of_one_agent_are_answered_one_after_the_other() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, scheduling: TurnScheduling::Parallel, ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let one = agent.ask("one");
    let two = agent.ask("two");
    let (thread, turn) = connection.turn().await;
    until_waiting(&pool, 1).await;
    connection.complete(&thread, &turn, "1").await;
    all(one).await;
    let (same, turn) = connection.turn().await;
    assert_eq!(same, thread);
    connection.complete(&thread, &turn, "2").await;
    assert_eq!(all(two).await[0], text("2"));
    pool.close().await;
}

#[tokio::test]
async fn interrupt_stops_running_and_waiting_messages() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let running = agent.ask("one");
    let waiting = agent.ask("two");
    let (thread, turn) = connection.turn().await;
    agent.interrupt();
    assert_eq!(status(&all(waiting).await), Some(ReplyStatus::Interrupted));
    let request = connection.expect("turn/interrupt").await;
    assert_eq!(request["params"], json!({ "threadId": thread, "turnId": turn }));
    connection.reply(&request, json!({})).await;
    let end = json!({ "id": turn, "items": [], "status": "interrupted", "error": null });
    connection.notify("turn/completed", json!({ "threadId": thread, "turn": end })).await;
    let messages = all(running).await;
    let turn_id = Some(turn.as_str().into());
    let session_id = Some(thread.as_str().into());
    assert_eq!(messages, [StreamMessage::Complete { session_id, turn_id, status: ReplyStatus::Interrupted }]);
    assert_eq!(turns(&connection), 1, "the waiting message was never sent");

    // The conversation continues.
    let next = agent.ask("three");
    let (same, turn) = connection.turn().await;
    assert_eq!(same, thread);
    connection.complete(&thread, &turn, "ok").await;
    assert_eq!(status(&all(next).await), Some(ReplyStatus::Completed));
    assert_eq!(pool.counts().turns_interrupted, 2);
    pool.close().await;
}

#[tokio::test]
async fn an_interrupted_turn_that_hangs_is_abandoned() {
    let mut fake = Fake::new();
    let settings =
        PoolSettings { warm_threads: 0, interrupt_grace: Duration::from_millis(10), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let hanging = agent.ask("one");
    connection.turn().await;
    agent.interrupt();
    assert_eq!(status(&all(hanging).await), Some(ReplyStatus::Interrupted));
    connection.expect("turn/interrupt").await;

    // The same for a turn that does not start.
    let mute = agent.ask("two");
    loop {
        match connection.next().await["method"].as_str() {
            Some("turn/interrupt") => {}
            other => break assert_eq!(other, Some("turn/start")),
        }
    }
    agent.interrupt();
    assert_eq!(status(&all(mute).await), Some(ReplyStatus::Interrupted));
    pool.close().await;
}

#[tokio::test]
async fn dropping_a_reply_stops_its_turn_before_the_next_begins() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let dropped = pool.agent().await.unwrap().ask("one");
    let next = pool.agent().await.unwrap().ask("two");
    connection.bare_turn().await;
    connection.notify("item/agentMessage/delta", json!({ "delta": "no" })).await;
    drop(dropped);
    connection.expect("turn/interrupt").await;
    assert_eq!(turns(&connection), 1, "its last notifications could be attributed to the next turn");
    connection.notify("item/agentMessage/delta", json!({ "delta": "t shown" })).await;
    connection.notify("turn/completed", json!({ "status": "interrupted" })).await;
    connection.bare_turn().await;
    connection.bare_complete("two").await;
    assert_eq!(all(next).await[0], text("two"));
    pool.close().await;
}

#[tokio::test]
async fn one_message_can_be_stopped_without_the_others() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let one = agent.ask("one");
    let two = agent.ask("two");
    let three = agent.ask("three");
    connection.bare_turn().await;
    two.stop();
    assert_eq!(status(&all(two).await), Some(ReplyStatus::Interrupted));
    connection.bare_complete("1").await;
    assert_eq!(all(one).await[0], text("1"));
    assert_eq!(connection.bare_turn().await, "three");
    connection.bare_complete("3").await;
    assert_eq!(all(three).await[0], text("3"));
    pool.close().await;
}

#[tokio::test]
async fn dispose_fails_waiting_messages() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let first = pool.agent().await.unwrap();
    let second = pool.agent().await.unwrap();
    let running = first.ask("one");
    let waiting = second.ask("two");
    let behind = second.ask("three");
    connection.bare_turn().await;
    soon(second.dispose()).await;
    assert_eq!(failure(&all(waiting).await), Some("closed"));
    assert_eq!(failure(&all(behind).await), Some("closed"));
    assert_eq!(failure(&all(second.ask("four")).await), Some("closed"));
    assert!(second.window().await.is_err());
    connection.bare_complete("one").await;
    assert_eq!(all(running).await[0], text("one"), "the others are not affected");
    assert_eq!(turns(&connection), 1);
    pool.close().await;
}

#[tokio::test]
async fn closing_the_pool_ends_running_and_waiting_turns() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let first = pool.agent().await.unwrap();
    let second = pool.agent().await.unwrap();
    let running = first.ask("one");
    let waiting = second.ask("two");
    connection.bare_turn().await;
    soon(pool.close()).await;
    assert!(all(running).await.last().unwrap().is_final());
    assert_eq!(failure(&all(waiting).await), Some("closed"));
    assert_eq!(failure(&all(first.ask("three")).await), Some("closed"));
    assert!(pool.agent().await.is_err());
    assert_eq!(pool.counts().turns_running + pool.counts().turns_waiting, 0);
}
