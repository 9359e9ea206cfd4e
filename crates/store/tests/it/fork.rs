//! Forked threads.

use std::fs;

use codicil_protocol::TurnStatus;
use codicil_store::{BLOB_MIN, ForkPoint, ListQuery, Record, StoreError, ThreadLog, new_thread_id};

use crate::support::{Home, begun, call, meta, turn};

async fn three_turns(home: &Home) -> ThreadLog {
    let mut log = home.begin().await;
    for number in 1..=3 {
        log.append(&turn(&format!("t{number}"), &format!("q{number}"), &format!("a{number}"))).await.unwrap();
    }
    log
}

async fn fork(home: &Home, source: &ThreadLog, point: ForkPoint) -> codicil_store::LoadedThread {
    let log = home.store.fork(source.id(), point, meta(&new_thread_id())).await.unwrap();
    let loaded = home.another_store().load(log.id()).await.unwrap();
    assert_eq!(loaded.thread.meta.forked_from.as_ref(), Some(source.id()));
    assert_eq!(loaded.thread.warnings.total, 0, "{:?}", loaded.thread.warnings);
    let lines = fs::read_to_string(log.path()).unwrap().lines().count();
    assert_eq!(loaded.thread.next_ordinal, lines as u64);
    loaded
}

fn ids(loaded: &codicil_store::LoadedThread) -> Vec<&str> {
    loaded.thread.turns.iter().map(|turn| &*turn.id).collect()
}

#[tokio::test]
async fn a_fork_has_the_same_turns_under_another_id() {
    let home = Home::new();
    let source = three_turns(&home).await;
    home.store.set_name(source.id(), "mine").await.unwrap();
    let original = home.store.load(source.id()).await.unwrap();
    let copy = fork(&home, &source, ForkPoint::End).await;
    assert_eq!(copy.thread.turns(), original.thread.turns());
    assert_eq!(copy.history, original.history);
    assert_ne!(copy.thread.id(), source.id());
    assert_eq!(copy.thread.name, None);
    assert_eq!(copy.thread.usage, original.thread.usage);
    assert_eq!(home.previews().await, ["q1", "q1"]);
    assert!(copy.thread.updated_at >= copy.thread.created_at);
}

#[tokio::test]
async fn a_fork_can_stop_at_a_turn() {
    let home = Home::new();
    let source = three_turns(&home).await;
    let after = fork(&home, &source, ForkPoint::After("t2".into())).await;
    assert_eq!((ids(&after), after.history.len()), (vec!["t1", "t2"], 4));
    let before = fork(&home, &source, ForkPoint::Before("t2".into())).await;
    assert_eq!((ids(&before), before.history.len()), (vec!["t1"], 2));
    let none = fork(&home, &source, ForkPoint::Before("t1".into())).await;
    assert!(ids(&none).is_empty() && none.history.is_empty());
    let point = ForkPoint::After("t9".into());
    let error = home.store.fork(source.id(), point, meta(&new_thread_id())).await.err().unwrap();
    assert!(matches!(error, StoreError::TurnNotFound(_)), "{error}");
}

#[tokio::test]
async fn rolled_back_turns_are_not_copied() {
    let home = Home::new();
    let mut source = three_turns(&home).await;
    source.append(&[Record::Rollback { turns: 2 }]).await.unwrap();
    source.append(&turn("t4", "q4", "a4")).await.unwrap();
    let copy = fork(&home, &source, ForkPoint::End).await;
    assert_eq!((ids(&copy), copy.history.len()), (vec!["t1", "t4"], 4));
    let error = home.store.fork(source.id(), ForkPoint::After("t3".into()), meta(&new_thread_id())).await;
    assert!(matches!(error, Err(StoreError::TurnNotFound(_))));
}

#[tokio::test]
async fn a_running_turn_is_interrupted_in_the_fork() {
    let home = Home::new();
    let mut source = three_turns(&home).await;
    source.append(&begun("t4", "q4")).await.unwrap();
    source.append(&[Record::Context { turn_id: Some("t4".into()), item: call("c") }]).await.unwrap();
    let copy = fork(&home, &source, ForkPoint::End).await;
    assert_eq!(copy.thread.turns[3].status, TurnStatus::Interrupted);
    assert!(copy.thread.turns[3].ended);
    assert_eq!(copy.history.len(), 9);
    // The source is not affected.
    source.append(&turn("t5", "q5", "a5")).await.unwrap();
    assert_eq!(home.store.read(source.id()).await.unwrap().turns.len(), 5);
}

#[tokio::test]
async fn forks_share_large_strings_and_can_be_forked() {
    let home = Home::new();
    let mut source = home.begin().await;
    let big = "x".repeat(BLOB_MIN * 4);
    source.append(&turn("t1", &big, "answer")).await.unwrap();
    let first = home.store.fork(source.id(), ForkPoint::End, meta(&new_thread_id())).await.unwrap();
    assert!(fs::metadata(first.path()).unwrap().len() < 4096);
    let mut first = first;
    first.append(&turn("t2", "q2", "a2")).await.unwrap();
    let second = fork(&home, &first, ForkPoint::End).await;
    assert_eq!(second.thread.preview, Some(big));
    assert_eq!(ids(&second), ["t1", "t2"]);
    let page = home.store.list(ListQuery::default()).await.unwrap();
    assert_eq!(page.threads.len(), 3);
}
