//! Keys of requests: one attempt at a time, and no second effect.

use codicil_store_postgres::PostgresError;

use crate::database::{TestDatabase, expire, register};

#[tokio::test]
async fn a_repetition_waits_and_gets_the_result() {
    let Some(database) = TestDatabase::create().await else { return };
    let (store, other) = (database.open_store().await, database.open_store().await);
    let (first, second) = (register(&store, "a").await, register(&store, "b").await);
    let mut lock = store.lock_key(first.identity(), "key").await.unwrap();
    assert_eq!((lock.intent(), lock.result()), (None, None));
    lock.begin("{\"threadId\":1}").await.unwrap();

    let repetition = other.lock_key(second.identity(), "key");
    tokio::pin!(repetition);
    // The repetition has asked at least once when another key is locked through the same connections.
    tokio::select! {
        _ = &mut repetition => panic!("the key is held"),
        _ = other.lock_key(second.identity(), "another key") => {}
    }
    lock.finish("{\"done\":true}").await.unwrap();
    let repeated = repetition.await.unwrap();
    assert_eq!(repeated.intent(), Some("{\"threadId\":1}"));
    assert_eq!(repeated.result(), Some("{\"done\":true}"));
}

#[tokio::test]
async fn a_dropped_or_forgotten_attempt_releases_the_key() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let mut lock = store.lock_key(node.identity(), "key").await.unwrap();
    lock.begin("1").await.unwrap();
    drop(lock);
    let lock = store.lock_key(node.identity(), "key").await.unwrap();
    assert_eq!(lock.intent(), Some("1"));
    lock.forget().await.unwrap();
    let mut lock = store.lock_key(node.identity(), "key").await.unwrap();
    assert_eq!(lock.intent(), None);
    lock.begin("2").await.unwrap();
    assert_eq!(lock.intent(), Some("2"));
}

#[tokio::test]
async fn a_request_that_is_dropped_while_it_locks_leaves_the_key_free() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let raw = database.raw().await;
    // Locking the key waits for this row.
    raw.run("insert into codicil_key (key) values ('key'); begin; select from codicil_key for update").await;
    let dropped = store.lock_key(node.identity(), "key");
    tokio::select! {
        _ = dropped => panic!("the row is locked"),
        () = database.until_waiting(1) => {}
    }
    raw.run("rollback").await;
    store.lock_key(node.identity(), "key").await.unwrap();
}

#[tokio::test]
async fn the_key_of_a_dead_node_is_taken_with_its_intent() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let (first, second) = (register(&store, "a").await, register(&store, "b").await);
    let mut lost = store.lock_key(first.identity(), "key").await.unwrap();
    lost.begin("1").await.unwrap();
    expire(&database, first.identity()).await;

    let taken = store.lock_key(second.identity(), "key").await.unwrap();
    assert_eq!(taken.intent(), Some("1"));
    assert!(matches!(lost.begin("2").await, Err(PostgresError::KeyLost)));
    assert!(matches!(lost.finish("3").await, Err(PostgresError::KeyLost)));
    taken.finish("4").await.unwrap();
    let stored = database.raw().await.row("select result from codicil_key").await;
    assert_eq!(stored.get::<_, String>(0), "4");
}

#[tokio::test]
async fn old_keys_are_removed() {
    let Some(database) = TestDatabase::create().await else { return };
    drop(database.open_store().await);
    let old = "insert into codicil_key (key, result, at) values ('old', '1', now() - interval '2 days'), ('young', '1', now())";
    let raw = database.raw().await;
    raw.run(old).await;
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let _lock = store.lock_key(node.identity(), "new").await.unwrap();
    let left = raw.row("select string_agg(key, ' ' order by key) from codicil_key").await;
    assert_eq!(left.get::<_, String>(0), "new young");
}
