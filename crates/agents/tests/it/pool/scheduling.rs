//! Whose turn it is, and what stops it.

use std::time::Duration;

use codicil_agents::pool::{Pool, PoolSettings, ReplyStatus, StreamMessage, TurnScheduling};
use serde_json::json;

use super::{
    all, cold, failure,
    fake::{Fake, Life, said},
    quick, soon, started, status, text,
};

/// Waits until so many messages wait for their turn.
async fn until_waiting(pool: &Pool, count: u64) {
    soon(async {
        while pool.counts().turns_waiting != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn turns(life: &Life) -> usize {
    life.seen("turn/start").len()
}

#[tokio::test]
async fn one_turn_at_a_time_in_order_where_notifications_have_no_ids() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let mut replies = Vec::new();
    for name in ["a", "b", "c", "d"] {
        replies.push((name, pool.agent().await.unwrap().ask(name)));
    }
    for (number, (name, reply)) in replies.into_iter().enumerate() {
        assert_eq!(life.bare_turn().await, name);
        until_waiting(&pool, 3 - number as u64).await;
        assert_eq!(turns(&life), number + 1, "the others wait");
        life.bare_complete(name).await;
        assert_eq!(all(reply).await[0], text(name), "and nothing is mixed up");
    }
    pool.close().await;
}

#[tokio::test]
async fn an_agent_with_many_messages_does_not_hold_up_the_others() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (busy, other) = (pool.agent().await.unwrap(), pool.agent().await.unwrap());
    let _replies = [busy.ask("busy 1"), busy.ask("busy 2"), busy.ask("busy 3"), other.ask("other")];
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(life.bare_turn().await);
        life.bare_complete("ok").await;
    }
    assert_eq!(order, ["busy 1", "other", "busy 2", "busy 3"]);
    pool.close().await;
}

#[tokio::test]
async fn many_turns_at_once_as_soon_as_a_notification_names_its_thread() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (one, other) = (pool.agent().await.unwrap(), pool.agent().await.unwrap());
    let (one, other) = (one.ask("one"), other.ask("other"));
    let (thread, turn) = life.turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&life), 1, "nothing is known of this server yet");
    let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
    life.notify("turn/started", json!({ "threadId": thread, "turn": started })).await;
    let (second_thread, second_turn) = life.turn().await;
    assert_eq!(pool.counts().turns_running, 2);
    life.complete(&second_thread, &second_turn, "other").await;
    life.complete(&thread, &turn, "one").await;
    assert_eq!((&all(one).await[0], &all(other).await[0]), (&text("one"), &text("other")));
    pool.close().await;
}

#[tokio::test]
async fn one_at_a_time_again_when_a_notification_lacks_its_ids() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let first = pool.agent().await.unwrap().ask("first");
    let (thread, turn) = life.turn().await;
    life.complete(&thread, &turn, "named").await;
    all(first).await;
    let second = pool.agent().await.unwrap().ask("second");
    life.bare_turn().await;
    life.bare_complete("not named").await;
    all(second).await;
    let (_one, _other) = (pool.agent().await.unwrap().ask("one"), pool.agent().await.unwrap().ask("other"));
    life.bare_turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&life), 3);
    pool.close().await;
}

#[tokio::test]
async fn it_can_be_said_beforehand() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, scheduling: TurnScheduling::Parallel, ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let _replies = [pool.agent().await.unwrap().ask("one"), pool.agent().await.unwrap().ask("other")];
    let mut both = [said(&life.expect("turn/start").await), said(&life.expect("turn/start").await)];
    both.sort();
    assert_eq!(both, ["one", "other"]);
    pool.close().await;

    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, scheduling: TurnScheduling::OneAtATime, ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let first = pool.agent().await.unwrap().ask("first");
    let (thread, turn) = life.turn().await;
    life.complete(&thread, &turn, "named").await;
    all(first).await;
    let _replies = [pool.agent().await.unwrap().ask("one"), pool.agent().await.unwrap().ask("other")];
    life.turn().await;
    until_waiting(&pool, 1).await;
    assert_eq!(turns(&life), 2);
    pool.close().await;
}

#[tokio::test]
async fn messages_of_one_agent_are_answered_one_after_the_other() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, scheduling: TurnScheduling::Parallel, ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let (one, two) = (agent.ask("one"), agent.ask("two"));
    let (thread, turn) = life.turn().await;
    until_waiting(&pool, 1).await;
    life.complete(&thread, &turn, "1").await;
    all(one).await;
    let (same, turn) = life.turn().await;
    assert_eq!(same, thread);
    life.complete(&thread, &turn, "2").await;
    assert_eq!(all(two).await[0], text("2"));
    pool.close().await;
}

#[tokio::test]
async fn interrupt_stops_what_runs_and_unblocks_what_waits() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let (running, waiting) = (agent.ask("one"), agent.ask("two"));
    let (thread, turn) = life.turn().await;
    agent.interrupt();
    assert_eq!(status(&all(waiting).await), Some(ReplyStatus::Interrupted));
    let request = life.expect("turn/interrupt").await;
    assert_eq!(request["params"], json!({ "threadId": thread, "turnId": turn }));
    life.reply(&request, json!({})).await;
    let end = json!({ "id": turn, "items": [], "status": "interrupted", "error": null });
    life.notify("turn/completed", json!({ "threadId": thread, "turn": end })).await;
    let messages = all(running).await;
    let turn_id = Some(turn.as_str().into());
    let session_id = Some(thread.as_str().into());
    assert_eq!(messages, [StreamMessage::Complete { session_id, turn_id, status: ReplyStatus::Interrupted }]);
    assert_eq!(turns(&life), 1, "what waited was never sent");

    // The conversation goes on.
    let next = agent.ask("three");
    let (same, turn) = life.turn().await;
    assert_eq!(same, thread);
    life.complete(&thread, &turn, "ok").await;
    assert_eq!(status(&all(next).await), Some(ReplyStatus::Completed));
    assert_eq!(pool.counts().turns_interrupted, 2);
    pool.close().await;
}

#[tokio::test]
async fn a_turn_that_hangs_is_not_waited_for_once_it_is_interrupted() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, interrupt_grace: Duration::from_millis(10), ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let hanging = agent.ask("one");
    life.turn().await;
    agent.interrupt();
    assert_eq!(status(&all(hanging).await), Some(ReplyStatus::Interrupted));
    life.expect("turn/interrupt").await;

    // Nor is one that does not even start.
    let mute = agent.ask("two");
    loop {
        match life.next().await["method"].as_str() {
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
    let (pool, mut life) = cold(&mut fake).await;
    let dropped = pool.agent().await.unwrap().ask("one");
    let next = pool.agent().await.unwrap().ask("two");
    life.bare_turn().await;
    life.notify("item/agentMessage/delta", json!({ "delta": "no" })).await;
    drop(dropped);
    life.expect("turn/interrupt").await;
    assert_eq!(turns(&life), 1, "its last words could be taken for those of the next");
    life.notify("item/agentMessage/delta", json!({ "delta": "body hears this" })).await;
    life.notify("turn/completed", json!({ "status": "interrupted" })).await;
    life.bare_turn().await;
    life.bare_complete("two").await;
    assert_eq!(all(next).await[0], text("two"));
    pool.close().await;
}

#[tokio::test]
async fn one_message_can_be_stopped_without_the_others() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let (one, two, three) = (agent.ask("one"), agent.ask("two"), agent.ask("three"));
    life.bare_turn().await;
    two.stop();
    assert_eq!(status(&all(two).await), Some(ReplyStatus::Interrupted));
    life.bare_complete("1").await;
    assert_eq!(all(one).await[0], text("1"));
    assert_eq!(life.bare_turn().await, "three");
    life.bare_complete("3").await;
    assert_eq!(all(three).await[0], text("3"));
    pool.close().await;
}

#[tokio::test]
async fn dispose_drains_the_line() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (first, second) = (pool.agent().await.unwrap(), pool.agent().await.unwrap());
    let running = first.ask("one");
    let (waiting, behind) = (second.ask("two"), second.ask("three"));
    life.bare_turn().await;
    soon(second.dispose()).await;
    assert_eq!(failure(&all(waiting).await), Some("closed"));
    assert_eq!(failure(&all(behind).await), Some("closed"));
    assert_eq!(failure(&all(second.ask("four")).await), Some("closed"));
    assert!(second.window().await.is_err());
    life.bare_complete("one").await;
    assert_eq!(all(running).await[0], text("one"), "the others do not notice");
    assert_eq!(turns(&life), 1);
    pool.close().await;
}

#[tokio::test]
async fn closing_the_pool_ends_everything_that_runs_or_waits() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let (first, second) = (pool.agent().await.unwrap(), pool.agent().await.unwrap());
    let (running, waiting) = (first.ask("one"), second.ask("two"));
    life.bare_turn().await;
    soon(pool.close()).await;
    assert!(all(running).await.last().unwrap().is_final());
    assert_eq!(failure(&all(waiting).await), Some("closed"));
    assert_eq!(failure(&all(first.ask("three")).await), Some("closed"));
    assert!(pool.agent().await.is_err());
    assert_eq!(pool.counts().turns_running + pool.counts().turns_waiting, 0);
}
