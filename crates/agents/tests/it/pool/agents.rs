//! Warm threads, windows, instructions, and the end of conversations.

use codicil_agents::pool::{PoolSettings, ReplyStatus};
use codicil_client::protocol::{ThreadId, ThreadStartParams, UserInput};
use serde_json::json;

use super::{
    all, cold,
    fake::{Connection, Fake},
    quick, soon, started, status, text,
};

fn started_with(connection: &Connection, number: usize) -> String {
    connection.seen("thread/start")[number]["baseInstructions"].as_str().unwrap_or_default().to_owned()
}

async fn until(mut condition: impl FnMut() -> bool) {
    soon(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_warm_thread_is_used_and_replaced() {
    let mut fake = Fake::new();
    let settings = PoolSettings { instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    assert_eq!((pool.warm_threads(), connection.seen("thread/start").len()), (1, 1));
    assert_eq!(started_with(&connection, 0), "Be kind.");
    let agent = pool.agent().await.unwrap();
    assert_eq!(agent.session_id(), Some(ThreadId::from("t1")), "before anything is said");
    let reply = agent.ask("Go");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "ok").await;
    all(reply).await;
    assert_eq!(thread, "t1");
    until(|| pool.warm_threads() == 1).await;
    assert_eq!(connection.seen("thread/start").len(), 2, "one was made in its place, and no more");
    let counts = pool.counts();
    assert_eq!((counts.warm_hits, counts.warm_misses, counts.threads_started), (1, 0, 2));
    pool.close().await;
}

#[tokio::test]
async fn there_are_never_more_warm_threads_than_configured() {
    let mut fake = Fake::new();
    let (pool, connection) = started(PoolSettings { warm_threads: 3, ..quick(&fake) }, &mut fake).await;
    let mut agents = Vec::new();
    for number in 0..10 {
        agents.push(pool.agent().await.unwrap());
        until(|| pool.warm_threads() == 3).await;
        assert_eq!(connection.seen("thread/start").len(), 4 + number);
    }
    pool.close().await;
    assert_eq!(pool.warm_threads(), 0);
}

#[tokio::test]
async fn an_agent_with_its_own_instructions_starts_its_own_thread() {
    let mut fake = Fake::new();
    let settings = PoolSettings { instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent_with("Be brief.").await.unwrap();
    assert_eq!((agent.session_id(), pool.warm_threads()), (None, 1));
    let reply = agent.ask("Go");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "ok").await;
    all(reply).await;
    assert_eq!((thread.as_str(), started_with(&connection, 1).as_str()), ("t2", "Be brief."));
    pool.close().await;
}

#[tokio::test]
async fn other_instructions_start_a_new_thread() {
    let mut fake = Fake::new();
    let settings = PoolSettings { instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let mut threads = Vec::new();
    for instructions in ["Be kind.", "Be kind.", "Be brief.", "Be brief."] {
        agent.set_instructions(instructions);
        let reply = agent.ask("Go");
        let (thread, turn) = connection.turn().await;
        connection.complete(&thread, &turn, "ok").await;
        all(reply).await;
        assert_eq!(agent.session_id(), Some(thread.as_str().into()));
        threads.push(thread);
    }
    assert!(threads[0] == threads[1] && threads[1] != threads[2] && threads[2] == threads[3], "{threads:?}");
    let starts = connection.seen("thread/start");
    assert!(starts.iter().any(|params| params["baseInstructions"] == "Be brief."), "{starts:?}");
    assert_eq!(
        connection.seen("thread/unsubscribe"),
        [json!({ "threadId": threads[0] })],
        "the old one is let go"
    );
    pool.close().await;
}

#[tokio::test]
async fn a_window_is_a_fork_of_the_desktop() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let desktop = pool.agent().await.unwrap();
    let reply = desktop.ask("Hello");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "Hi").await;
    all(reply).await;

    let one = soon(desktop.window()).await.unwrap();
    let two = soon(desktop.window()).await.unwrap();
    let forks = connection.seen("thread/fork");
    assert_eq!(
        forks.iter().map(|fork| fork["threadId"].clone()).collect::<Vec<_>>(),
        [thread.clone(), thread.clone()]
    );
    assert!(one.session_id() != two.session_id() && one.session_id() != desktop.session_id());
    let replies = [one.ask("one"), two.ask("two"), desktop.ask("desktop")];
    for _ in 0..3 {
        let (thread, turn) = connection.turn().await;
        connection.complete(&thread, &turn, &thread).await;
    }
    let sessions = [&one, &two, &desktop].map(|agent| agent.session_id().unwrap());
    for (reply, session) in replies.into_iter().zip(sessions) {
        assert_eq!(all(reply).await[0], text(&session), "each on a thread of its own");
    }
    assert_eq!(pool.counts().threads_forked, 2);
    pool.close().await;
}

#[tokio::test]
async fn a_window_of_an_empty_conversation_starts_with_the_same_instructions() {
    let mut fake = Fake::new();
    fake.own("thread/fork");
    let settings = PoolSettings { instructions: "Be kind.".into(), ..quick(&fake) };
    let (pool, mut connection) = started(settings, &mut fake).await;
    let desktop = pool.agent().await.unwrap();
    let (window, ()) = tokio::join!(soon(desktop.window()), async {
        let request = connection.expect("thread/fork").await;
        connection.refuse(&request, "no rollout found for thread id t1").await;
    });
    let reply = window.unwrap().ask("Go");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "ok").await;
    assert_eq!(status(&all(reply).await), Some(ReplyStatus::Completed));
    assert!(connection.seen("thread/start").iter().all(|params| params["baseInstructions"] == "Be kind."));
    assert_ne!(thread, "t1");
    pool.close().await;
}

#[tokio::test]
async fn a_stored_conversation_is_resumed_by_its_id() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    let agent = pool.resume(&"t77".into()).await.unwrap();
    assert_eq!(agent.session_id(), Some("t77".into()));
    let reply = agent.ask("Where were we?");
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "Here").await;
    all(reply).await;
    assert_eq!(thread, "t77");
    assert_eq!(connection.seen("thread/resume").len(), 1);
    pool.close().await;
}

#[tokio::test]
async fn disposing_of_or_dropping_an_agent_unsubscribes_from_its_thread() {
    let mut fake = Fake::new();
    let (pool, connection) = started(PoolSettings { warm_threads: 2, ..quick(&fake) }, &mut fake).await;
    let disposed = pool.agent().await.unwrap();
    let dropped = pool.agent().await.unwrap();
    soon(disposed.dispose()).await;
    assert_eq!(connection.seen("thread/unsubscribe"), [json!({ "threadId": "t1" })]);
    drop(dropped);
    until(|| connection.seen("thread/unsubscribe").contains(&json!({ "threadId": "t2" }))).await;
    pool.close().await;
}

#[tokio::test]
async fn a_conversation_can_be_archived() {
    let mut fake = Fake::new();
    let (pool, connection) = started(quick(&fake), &mut fake).await;
    let agent = pool.agent().await.unwrap();
    soon(agent.archive()).await.unwrap();
    assert_eq!(connection.seen("thread/archive"), [json!({ "threadId": "t1" })]);
    pool.close().await;
}

#[tokio::test]
async fn images_and_other_parts_are_sent_as_they_are() {
    let mut fake = Fake::new();
    let thread =
        ThreadStartParams { developer_instructions: Some("Mind the gap.".into()), ..Default::default() };
    let (pool, mut connection) = started(PoolSettings { thread, ..quick(&fake) }, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let input = vec![
        UserInput::Text { text: "What is this?".into(), text_elements: Vec::new() },
        UserInput::image("data:image/png;base64,AAAA"),
    ];
    let reply = agent.ask(input);
    let (thread, turn) = connection.turn().await;
    connection.complete(&thread, &turn, "A gap").await;
    all(reply).await;
    let sent = &connection.seen("turn/start")[0]["input"];
    assert_eq!(sent[1], json!({ "type": "image", "url": "data:image/png;base64,AAAA" }));
    assert_eq!(connection.seen("thread/start")[0]["developerInstructions"], "Mind the gap.");
    pool.close().await;
}
