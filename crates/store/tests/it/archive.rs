//! Archiving, restoring and naming archived threads.

use codicil_store::{ListQuery, StoreError, new_thread_id};

use crate::support::{Home, previews, turn};

async fn archived(home: &Home) -> Vec<String> {
    previews(&home.store.list(ListQuery { archived: true, ..ListQuery::default() }).await.unwrap())
}

#[tokio::test]
async fn a_thread_goes_to_the_archive_and_back() {
    let home = Home::new();
    let log = home.thread("one").await;
    home.thread("two").await;
    let before = log.path();
    let place = home.store.archive(log.id()).await.unwrap();
    assert_eq!(place.path, home.path().join("archived_sessions").join(before.file_name().unwrap()));
    assert!(place.archived && place.path.exists() && !before.exists());
    assert_eq!((home.previews().await, archived(&home).await), (vec!["two".into()], vec!["one".into()]));
    assert_eq!(home.store.find(log.id()).await.unwrap(), place);
    assert!(home.store.read(log.id()).await.unwrap().archived);

    let place = home.store.unarchive(log.id()).await.unwrap();
    assert_eq!((place.path, place.archived), (before, false));
    assert_eq!(home.previews().await, ["two", "one"]);
    assert!(archived(&home).await.is_empty());
}

#[tokio::test]
async fn a_missing_thread_cannot_be_moved() {
    let home = Home::new();
    let log = home.thread("one").await;
    let not_found = |result| matches!(result, Err(StoreError::NotFound(_)));
    assert!(not_found(home.store.unarchive(log.id()).await));
    assert!(not_found(home.store.archive(&new_thread_id()).await));
    home.store.archive(log.id()).await.unwrap();
    assert!(not_found(home.store.archive(log.id()).await));
}

#[tokio::test]
async fn an_archived_thread_can_be_named_and_keeps_its_name() {
    let home = Home::new();
    let log = home.thread("one").await;
    home.store.archive(log.id()).await.unwrap();
    home.store.set_name(log.id(), "put away").await.unwrap();
    let name = |page: codicil_store::ThreadPage| page.threads[0].name.clone();
    let query = ListQuery { archived: true, ..ListQuery::default() };
    assert_eq!(name(home.store.list(query).await.unwrap()).as_deref(), Some("put away"));
    home.store.unarchive(log.id()).await.unwrap();
    assert_eq!(home.store.read(log.id()).await.unwrap().name.as_deref(), Some("put away"));
    let page = home.another_store().list(ListQuery::default()).await.unwrap();
    assert_eq!(name(page).as_deref(), Some("put away"));
}

#[tokio::test]
async fn a_log_follows_its_thread_into_the_archive() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let place = home.another_store().archive(log.id()).await.unwrap();
    log.append(&turn("t2", "two", "done")).await.unwrap();
    assert_eq!(log.path(), place.path);
    let thread = home.store.read(log.id()).await.unwrap();
    assert_eq!((thread.turns.len(), thread.warnings.total), (2, 0));
    std::fs::remove_file(&place.path).unwrap();
    assert!(matches!(log.append(&turn("t3", "x", "y")).await, Err(StoreError::NotFound(_))));
    assert!(!place.path.exists());
}

#[tokio::test]
async fn an_existing_file_is_not_overwritten() {
    let home = Home::new();
    let log = home.thread("one").await;
    let place = home.store.archive(log.id()).await.unwrap();
    let before = log.path();
    std::fs::copy(&place.path, &before).unwrap();
    assert!(matches!(home.store.archive(log.id()).await, Err(StoreError::Exists(_))));
    assert!(before.exists() && place.path.exists());
    // Of two files of one thread, lists show the one that is not archived.
    assert_eq!(home.previews().await, ["one"]);
}
