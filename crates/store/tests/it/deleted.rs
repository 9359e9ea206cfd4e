//! Deleted threads, and goals.

use codicil_protocol::{ThreadGoal, ThreadGoalStatus, ThreadId};
use codicil_store::{ForkPoint, Record, StoreError, ThreadMeta, new_thread_id};

use crate::support::{Home, begun, meta};

fn goal(id: &ThreadId, objective: &str) -> ThreadGoal {
    ThreadGoal {
        thread_id: id.clone(),
        objective: objective.to_owned(),
        status: ThreadGoalStatus::Paused,
        token_budget: Some(9),
        tokens_used: 1,
        time_used_seconds: 2,
        created_at: 3,
        updated_at: 4,
    }
}

#[tokio::test]
async fn a_deleted_thread_is_found_nowhere_and_others_stay() {
    let mut home = Home::new();
    let (mut gone, archived, kept) =
        (home.thread("gone").await, home.thread("put away").await, home.thread("kept").await);
    home.store.archive(archived.id()).await.unwrap();
    for id in [gone.id(), archived.id()] {
        home.store.delete(id).await.unwrap();
        assert!(matches!(home.store.find(id).await, Err(StoreError::NotFound(_))));
        assert!(matches!(home.store.delete(id).await, Err(StoreError::NotFound(_))));
    }
    assert_eq!(home.previews().await, ["kept"]);
    assert!(gone.append(&begun("t9", "late")).await.is_err(), "a log does not bring a thread back");
    home.restart().await;
    assert_eq!(home.previews().await, ["kept"]);
    let is_thread = |file: &&String| file.ends_with(".jsonl");
    assert_eq!(home.files().iter().filter(is_thread).count(), 1, "{:?}", home.files());
    assert!(home.store.find(kept.id()).await.is_ok());
}

#[tokio::test]
async fn agents_are_found_by_the_thread_that_started_them() {
    let home = Home::new();
    let parent = home.thread("above").await;
    let mut agents = Vec::new();
    for _ in 0..2 {
        let meta = ThreadMeta { parent_thread_id: Some(parent.id().clone()), ..meta(&new_thread_id()) };
        agents.push(home.store.create(meta).await.unwrap().id().clone());
    }
    assert_eq!(home.store.children(parent.id()).await.unwrap(), agents);
    assert_eq!(home.store.children(&agents[0]).await.unwrap(), []);
}

#[tokio::test]
async fn the_last_goal_counts_and_a_fork_has_none() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let first = goal(log.id(), "first");
    let last = goal(log.id(), "last");
    log.append(&[
        Record::goal(Some(&first), None),
        Record::goal(None, None),
        Record::goal(Some(&last), None),
    ])
    .await
    .unwrap();
    let stored = home.another_store().load(log.id()).await.unwrap().thread;
    assert_eq!((stored.goal, stored.warnings.total), (Some(last), 0));

    let copy = home.store.fork(log.id(), ForkPoint::End, meta(&new_thread_id())).await.unwrap();
    assert_eq!(home.store.read(copy.id()).await.unwrap().goal, None);
    log.append(&[Record::goal(None, None)]).await.unwrap();
    assert_eq!(home.store.read(log.id()).await.unwrap().goal, None);
}
