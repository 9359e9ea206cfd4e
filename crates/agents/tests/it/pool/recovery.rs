//! Recovery from servers that crash, hang, lose threads or send garbage.

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
    let restart_limits = PoolSettings::new(codicil_client::UnixSocket::new("/nowhere")).restart_limits;
    assert_eq!((restart_limits.max_restarts, restart_limits.delay), (3, Duration::from_secs(1)));
}

#[tokio::test]
async fn a_crash_before_any_work_is_retried_silently() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let (thread, turn) = connection.turn().await;
    let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
    connection.notify("turn/started", json!({ "threadId": thread, "turn": started })).await;
    connection.die().await;
    let mut connection = fake.accept().await;
    let (same, turn) = connection.turn().await;
    assert_eq!(same, thread);
    assert_eq!(connection.seen("thread/resume")[0]["threadId"], thread);
    connection.complete(&thread, &turn, "Here I am").await;
    let messages = all(reply).await;
    assert_eq!((&messages[0], status(&messages)), (&text("Here I am"), Some(ReplyStatus::Completed)));
    let counts = pool.counts();
    assert_eq!((counts.restarts, counts.turns_retried, counts.threads_resumed), (1, 1, 1));
    pool.close().await;
}

#[tokio::test]
async fn a_thread_lost_in_a_crash_is_started_anew() {
    let mut fake = Fake::new();
    let settings = PoolSettings { warm_threads: 0, instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let (old, _) = connection.turn().await;
    fake.rules.forgets.store(true, Ordering::Relaxed);
    drop(connection);
    let mut connection = fake.accept().await;
    let (new, turn) = connection.turn().await;
    assert_ne!(new, old);
    assert_eq!(connection.seen("thread/start")[0]["baseInstructions"], "Be kind.");
    connection.complete(&new, &turn, "Hello").await;
    assert_eq!(all(reply).await[0], text("Hello"));
    assert_eq!(&*agent.session_id().unwrap(), new);
    assert_eq!(pool.counts().threads_invalidated, 1);
    pool.close().await;
}

#[tokio::test]
async fn a_crash_during_a_turn_is_an_error_and_the_next_message_continues() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    connection.bare_turn().await;
    connection.notify("item/mcpToolCall/started", json!({ "server": "s", "tool": "launch" })).await;
    connection.die().await;
    let messages = all(reply).await;
    assert_eq!(failure(&messages), Some("port_exit"), "{messages:?}");
    assert_eq!(messages.len(), 3, "the tool is shown, and that it did not end");
    assert_eq!(pool.counts().turns_retried, 0, "it may have been launched");

    let reply = agent.ask("Again");
    let mut connection = fake.accept().await;
    assert_eq!(connection.bare_turn().await, "Again");
    assert_eq!(connection.seen("thread/resume").len(), 1);
    connection.bare_complete("Hello").await;
    assert_eq!(all(reply).await[0], text("Hello"));
    pool.close().await;
}

#[tokio::test]
async fn a_lost_thread_is_replaced_by_a_new_one() {
    for message in ["thread not found: t1", "Invalid conversation"] {
        let mut fake = Fake::new();
        let (pool, mut connection) = cold(&mut fake).await;
        let agent = pool.agent().await.unwrap();
        let reply = agent.ask("Go");
        let request = connection.expect("turn/start").await;
        connection.refuse(&request, message).await;
        let again = connection.expect("turn/start").await;
        assert_eq!(said(&again), "Go");
        assert_ne!(again["params"]["threadId"], request["params"]["threadId"]);
        // The message is repeated only once.
        connection.refuse(&again, message).await;
        assert_eq!(failure(&all(reply).await), Some("response_error"));
        pool.close().await;
    }
}

#[tokio::test]
async fn other_errors_are_reported_and_not_retried() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let request = connection.expect("turn/start").await;
    connection.refuse(&request, "out of credit").await;
    let messages = all(reply).await;
    assert_eq!(failure(&messages), Some("response_error"));
    let session = agent.session_id();
    let reply = agent.ask("Again");
    let (thread, turn) = connection.turn().await;
    assert_eq!(Some(thread.as_str().into()), session, "the thread is as good as before");
    connection.complete(&thread, &turn, "ok").await;
    assert_eq!(status(&all(reply).await), Some(ReplyStatus::Completed));
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_crashes_repeatedly_is_given_up() {
    let mut fake = Fake::new();
    let (pool, connection) = cold(&mut fake).await;
    let agent = pool.agent().await.unwrap();
    drop(connection);
    for _ in 0..3 {
        drop(fake.accept().await);
    }
    // Messages end with an error, whether or not the crash has been processed.
    soon(async { while failure(&all(agent.ask("Go")).await) != Some("port_exit") {} }).await;
    assert!(soon(pool.resume(&"t9".into())).await.is_ok(), "only turns need the server");
    pool.close().await;
}

#[tokio::test]
async fn a_later_message_restarts_a_server_that_was_given_up() {
    let mut fake = Fake::new();
    let settings = quick(&fake);
    let restart_limits =
        RestartLimits { retry_after: Some(Duration::ZERO), ..settings.restart_limits.clone() };
    let (pool, connection) =
        started(PoolSettings { warm_threads: 0, restart_limits, ..settings }, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    drop(connection);
    for _ in 0..3 {
        drop(fake.accept().await);
    }
    let reply = agent.ask("Are you there?");
    let mut connection = fake.accept().await;
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "Again").await;
    assert_eq!(all(reply).await[0], text("Again"));
    assert!(pool.counts().restarts > 0);
    pool.close().await;
}

#[tokio::test]
async fn garbage_between_the_messages_is_skipped() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.bare_turn().await;
    for line in ["", "WARN something", "{", "[1,2]", "{\"id\":99,\"result\":{}}", "{\"method\":7}", "null"] {
        connection.send_raw(line).await;
    }
    connection.notify("item/started", json!("what")).await;
    connection.notify("item/mcpToolCall/progress", json!([])).await;
    connection.bare_complete("Fine").await;
    let messages = all(reply).await;
    assert_eq!((&messages[0], status(&messages)), (&text("Fine"), Some(ReplyStatus::Completed)));
    pool.close().await;
}

#[tokio::test]
async fn a_turn_that_times_out_is_an_error() {
    let mut fake = Fake::new();
    let settings = quick(&fake);
    let client = settings.client.clone().turn_timeout(Some(Duration::from_millis(20)));
    let (pool, mut connection) =
        started(PoolSettings { warm_threads: 0, client, ..settings }, &mut fake).await;
    let reply = pool.agent().await.unwrap().ask("Go");
    connection.turn().await;
    assert_eq!(failure(&all(reply).await), Some("turn_timeout"));
    connection.expect("turn/interrupt").await;
    pool.close().await;
}

#[tokio::test]
async fn warm_threads_of_a_crashed_server_are_replaced() {
    let mut fake = Fake::new();
    let (pool, connection) = started(PoolSettings { warm_threads: 2, ..quick(&fake) }, &mut fake).await;
    assert_eq!(pool.warm_threads(), 2);
    drop(connection);
    let connection = fake.accept().await;
    let agent = soon(async {
        loop {
            // Until the crash is processed they still count as warm.
            match pool.warm_threads() {
                0 => break pool.agent().await.unwrap(),
                _ => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    soon(async {
        while pool.warm_threads() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(connection.seen("thread/start").len() >= 2);
    assert_eq!((pool.counts().warm_misses, agent.session_id()), (1, None));
    pool.close().await;
}

#[tokio::test]
async fn an_unreachable_server_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let absent = codicil_client::UnixSocket::new(folder.path().join("absent"));
    let settings = PoolSettings { restart_limits: RestartLimits::default(), ..PoolSettings::new(absent) };
    let error = soon(codicil_agents::pool::Pool::start(settings)).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot connect to "), "{error}");
}
