//! Servers that crash, hang, forget or talk nonsense, and conversations that go on.

use std::{sync::atomic::Ordering, time::Duration};

use codicil_agents::pool::{PoolSettings, ReplyStatus};
use codicil_client::RestartLimits;
use serde_json::json;

use super::{
    all, cold, failure,
    fake::{Fake, said},
    quick, soon, started, status, text,
};

#[test]
fn a_server_is_restarted_three_times_one_second_apart() {
    let supervision = PoolSettings::new(codicil_client::UnixSocket::new("/nowhere")).supervision;
    assert_eq!((supervision.max_restarts, supervision.delay), (3, Duration::from_secs(1)));
}

#[tokio::test]
async fn a_crash_before_anything_was_done_is_not_noticed() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let (thread, turn) = life.turn().await;
    let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
    life.notify("turn/started", json!({ "threadId": thread, "turn": started })).await;
    life.die().await;
    let mut life = fake.life().await;
    let (same, turn) = life.turn().await;
    assert_eq!(same, thread);
    assert_eq!(life.seen("thread/resume")[0]["threadId"], thread);
    life.complete(&thread, &turn, "Here I am").await;
    let messages = all(reply).await;
    assert_eq!((&messages[0], status(&messages)), (&text("Here I am"), Some(ReplyStatus::Completed)));
    let counts = pool.counts();
    assert_eq!((counts.restarts, counts.turns_retried, counts.threads_resumed), (1, 1, 1));
    pool.close().await;
}

#[tokio::test]
async fn a_thread_that_did_not_survive_the_crash_is_started_anew() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm: 0, instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut life) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let (old, _) = life.turn().await;
    fake.rules.forgets.store(true, Ordering::Relaxed);
    drop(life);
    let mut life = fake.life().await;
    let (new, turn) = life.turn().await;
    assert_ne!(new, old);
    assert_eq!(life.seen("thread/start")[0]["baseInstructions"], "Be kind.");
    life.complete(&new, &turn, "Hello").await;
    assert_eq!(all(reply).await[0], text("Hello"));
    assert_eq!(&*agent.session_id().unwrap(), new);
    assert_eq!(pool.counts().threads_invalidated, 1);
    pool.close().await;
}

#[tokio::test]
async fn a_crash_in_the_middle_is_told_and_the_next_message_goes_on() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    life.bare_turn().await;
    life.notify("item/mcpToolCall/started", json!({ "server": "s", "tool": "launch" })).await;
    life.die().await;
    let messages = all(reply).await;
    assert_eq!(failure(&messages), Some("port_exit"), "{messages:?}");
    assert_eq!(messages.len(), 3, "the tool is shown, and that it did not end");
    assert_eq!(pool.counts().turns_retried, 0, "it may have been launched");

    let reply = agent.ask("Again");
    let mut life = fake.life().await;
    assert_eq!(life.bare_turn().await, "Again");
    assert_eq!(life.seen("thread/resume").len(), 1);
    life.bare_complete("Hello").await;
    assert_eq!(all(reply).await[0], text("Hello"));
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_no_longer_knows_the_thread_gets_another() {
    for message in ["thread not found: t1", "Invalid conversation"] {
        let mut fake = Fake::new();
        let (pool, mut life) = cold(&mut fake).await;
        let agent = pool.agent().await.unwrap();
        let reply = agent.ask("Go");
        let request = life.expect("turn/start").await;
        life.refuse(&request, message).await;
        let again = life.expect("turn/start").await;
        assert_eq!(said(&again), "Go");
        assert_ne!(again["params"]["threadId"], request["params"]["threadId"]);
        // Once is enough.
        life.refuse(&again, message).await;
        assert_eq!(failure(&all(reply).await), Some("response_error"));
        pool.close().await;
    }
}

#[tokio::test]
async fn other_errors_are_told_and_not_repeated() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let request = life.expect("turn/start").await;
    life.refuse(&request, "out of credit").await;
    let messages = all(reply).await;
    assert_eq!(failure(&messages), Some("response_error"));
    let session = agent.session_id();
    let reply = agent.ask("Again");
    let (thread, turn) = life.turn().await;
    assert_eq!(Some(thread.as_str().into()), session, "the thread is as good as before");
    life.complete(&thread, &turn, "ok").await;
    assert_eq!(status(&all(reply).await), Some(ReplyStatus::Completed));
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_crashes_again_and_again_is_given_up() {
    let mut fake = Fake::new();
    let (pool, life) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    drop(life);
    for _ in 0..3 {
        drop(fake.life().await);
    }
    // Messages end with an error, whether or not the end has been noticed; none waits for ever.
    soon(async { while failure(&all(agent.ask("Go")).await) != Some("port_exit") {} }).await;
    assert!(soon(pool.resume(&"t9".into())).await.is_ok(), "only turns need the server");
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_was_given_up_comes_back_for_a_later_message() {
    let mut fake = Fake::new();
    let settings = quick(&fake);
    let supervision = RestartLimits { retry_after: Some(Duration::ZERO), ..settings.supervision.clone() };
    let (pool, life) = started(PoolSettings { warm: 0, supervision, ..settings }, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    drop(life);
    for _ in 0..3 {
        drop(fake.life().await);
    }
    let reply = agent.ask("Are you there?");
    let mut life = fake.life().await;
    let (thread, turn) = life.turn().await;
    life.complete(&thread, &turn, "Again").await;
    assert_eq!(all(reply).await[0], text("Again"));
    assert!(pool.counts().restarts > 0);
    pool.close().await;
}

#[tokio::test]
async fn nonsense_between_the_lines_is_survived() {
    let mut fake = Fake::new();
    let (pool, mut life) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    life.bare_turn().await;
    for line in ["", "WARN something", "{", "[1,2]", "{\"id\":99,\"result\":{}}", "{\"method\":7}", "null"] {
        life.send_raw(line).await;
    }
    life.notify("item/started", json!("what")).await;
    life.notify("item/mcpToolCall/progress", json!([])).await;
    life.bare_complete("Fine").await;
    let messages = all(reply).await;
    assert_eq!((&messages[0], status(&messages)), (&text("Fine"), Some(ReplyStatus::Completed)));
    pool.close().await;
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_an_error() {
    let mut fake = Fake::new();
    let settings = quick(&fake);
    let client = settings.client.clone().turn_timeout(Some(Duration::from_millis(20)));
    let (pool, mut life) = started(PoolSettings { warm: 0, client, ..settings }, &mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    life.turn().await;
    assert_eq!(failure(&all(reply).await), Some("turn_timeout"));
    life.expect("turn/interrupt").await;
    pool.close().await;
}

#[tokio::test]
async fn threads_that_stood_ready_on_a_dead_server_are_replaced() {
    let mut fake = Fake::new();
    let (pool, life) = started(PoolSettings { warm: 2, ..quick(&fake) }, &mut fake).await;
    assert_eq!(pool.warm(), 2);
    drop(life);
    let life = fake.life().await;
    let agent = soon(async {
        loop {
            // Before the end is noticed they still look good.
            match pool.warm() {
                0 => break pool.agent().await.unwrap(),
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    soon(async {
        while pool.warm() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(life.seen("thread/start").len() >= 2);
    assert_eq!((pool.counts().warm_misses, agent.session_id()), (1, None));
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = codicil_client::UnixSocket::new(folder.path().join("nobody"));
    let settings = PoolSettings { supervision: RestartLimits::default(), ..PoolSettings::new(nobody) };
    let error = soon(codicil_agents::pool::Pool::start(settings)).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to "), "{error}");
}
