//! Several stores on one home, as in several processes.

use std::{collections::BTreeSet, fs};

use codicil_store::{ListQuery, Record, Store};
use serde_json::Value;

use crate::support::{Home, meta, previews, turn};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_appends_to_one_thread_do_not_interleave() {
    let home = Home::new();
    let first = home.thread("one").await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let mut log = home.another_store().open_log(first.id()).await.unwrap();
        writers.spawn(async move {
            for number in 0..50 {
                let name = format!("{writer}-{number}-{}", "x".repeat(number * 100));
                log.append(&[Record::Name { name: name.clone() }, Record::Name { name }]).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let text = fs::read_to_string(first.path()).unwrap();
    let mut names = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["ordinal"], number, "ordinals count without a gap");
        names.extend(value["name"].as_str().map(str::to_owned));
    }
    assert_eq!((text.lines().count(), names.len()), (8 + 400, 200));
    assert_eq!(home.store.read(first.id()).await.unwrap().warnings.total, 0);
}

#[tokio::test]
async fn one_store_sees_the_changes_of_another() {
    let home = Home::new();
    let other = home.another_store();
    let list = |store: &Store| {
        let store = store.clone();
        async move { previews(&store.list(ListQuery::default()).await.unwrap()) }
    };
    assert!(list(&other).await.is_empty());
    let log = home.thread("one").await;
    assert_eq!(list(&other).await, ["one"]);
    other.set_name(log.id(), "named elsewhere").await.unwrap();
    let page = home.store.list(ListQuery::default()).await.unwrap();
    assert_eq!(page.threads[0].name.as_deref(), Some("named elsewhere"));
    home.store.archive(log.id()).await.unwrap();
    assert!(list(&other).await.is_empty());
    other.unarchive(log.id()).await.unwrap();
    assert_eq!(list(&home.store).await, ["one"]);
    let mut silent = home.begin().await;
    assert_eq!(list(&other).await, ["one"]);
    silent.append(&turn("t1", "two", "answer")).await.unwrap();
    home.store.flush().await.unwrap();
    assert_eq!(list(&other).await, ["two", "one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_fill_a_fresh_home_at_once() {
    let home = Home::new();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let store = home.another_store();
        writers.spawn(async move {
            for number in 0..10 {
                let mut log = store.create(meta(&codicil_store::new_thread_id())).await.unwrap();
                log.append(&turn("t1", &format!("{writer} {number}"), "answer")).await.unwrap();
                let own = store.list(ListQuery { limit: Some(100), ..ListQuery::default() }).await.unwrap();
                let mine =
                    previews(&own).iter().filter(|text| text.starts_with(&format!("{writer} "))).count();
                assert_eq!(mine, number + 1);
            }
        });
    }
    writers.join_all().await;
    let page = home.store.list(ListQuery { limit: Some(100), ..ListQuery::default() }).await.unwrap();
    assert_eq!(page.threads.len(), 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thread_can_be_written_while_it_is_archived_and_restored() {
    let home = Home::new();
    let log = home.thread("one").await;
    let id = log.id().clone();
    let mover = home.another_store();
    let moving = tokio::spawn({
        let id = id.clone();
        async move {
            for _ in 0..25 {
                mover.archive(&id).await.unwrap();
                mover.unarchive(&id).await.unwrap();
            }
        }
    });
    let mut log = home.another_store().open_log(&id).await.unwrap();
    for number in 0..25 {
        // The file may be moved between locating and opening it.
        while let Err(error) = log.append(&[Record::Name { name: number.to_string() }]).await {
            assert!(
                matches!(error.io_kind(), Some(std::io::ErrorKind::NotFound)) || is_missing(&error),
                "{error}"
            );
        }
    }
    moving.await.unwrap();
    let thread = home.store.read(&id).await.unwrap();
    assert_eq!((thread.name.as_deref(), thread.warnings.total), (Some("24"), 0));
    assert_eq!(thread.next_ordinal, 8 + 25);
    assert_eq!(home.previews().await, ["one"]);
}

fn is_missing(error: &codicil_store::StoreError) -> bool {
    matches!(error, codicil_store::StoreError::NotFound(_))
}

#[tokio::test]
async fn closing_keeps_the_log_and_ends_the_lists() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    home.store.close().await.unwrap();
    log.append(&turn("t2", "two", "answer")).await.unwrap();
    log.sync().await.unwrap();
    assert!(matches!(home.store.list(ListQuery::default()).await, Err(codicil_store::StoreError::Closed)));
    let store = home.another_store();
    assert_eq!(store.read(log.id()).await.unwrap().turns.len(), 2);
    assert_eq!(previews(&store.list(ListQuery::default()).await.unwrap()), ["one"]);
}
