//! Creating, archiving and deleting threads, and the tables they are in.

use codicil_store_postgres::{DatabaseAddress, PostgresError, PostgresStore};
use futures_util::future::join_all;

use crate::database::{TestDatabase, batch, new_thread, register};

#[tokio::test]
async fn nodes_that_start_together_create_the_tables_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let stores = join_all((0..4).map(|_| database.open_store())).await;
    assert_eq!(stores.len(), 4);
    let applied = database.raw().await.row("select count(*) = max(number) from codicil_migration").await;
    assert!(applied.get::<_, bool>(0));
}

#[tokio::test]
async fn tables_of_a_later_version_are_refused() {
    let Some(database) = TestDatabase::create().await else { return };
    drop(database.open_store().await);
    database.raw().await.run("insert into codicil_migration (number, name) values (99, 'later')").await;
    let opened = PostgresStore::open(DatabaseAddress::parse(&database.address()).unwrap()).await;
    assert!(matches!(opened.err(), Some(PostgresError::TooNew { found: 99, .. })));
}

#[tokio::test]
async fn a_thread_is_created_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    store.create(node.identity(), &thread).await.unwrap();
    let error = store.create(node.identity(), &thread).await.unwrap_err();
    assert!(matches!(error, PostgresError::Exists(id) if id == thread.id), "{error}");
    database.check().await;
}

#[tokio::test]
async fn threads_are_archived_and_restored() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    store.create(node.identity(), &thread).await.unwrap();
    store.archive(thread.id).await.unwrap();
    assert!(store.thread(thread.id).await.unwrap().archived);
    assert!(matches!(store.archive(thread.id).await, Err(PostgresError::NotFound(_))));
    store.unarchive(thread.id).await.unwrap();
    assert!(!store.thread(thread.id).await.unwrap().archived);
}

#[tokio::test]
async fn a_deleted_thread_is_gone_and_cannot_be_written() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let (root, first, second) = (new_thread(), new_thread(), new_thread());
    let tree = store.create(node.identity(), &root).await.unwrap();
    store.spawn_child(&tree, &first).await.unwrap();
    store.spawn_child(&tree, &second).await.unwrap();

    store.delete(&tree, first.id).await.unwrap();
    assert!(matches!(store.read_lines(first.id, 0).await, Err(PostgresError::NotFound(_))));
    assert!(store.append(batch(first.id, tree.epoch, 1)).await.is_err());
    assert_eq!(store.tree(&tree).await.unwrap().len(), 2);
    database.check().await;

    store.delete(&tree, root.id).await.unwrap();
    let rows = "select (select count(*) from codicil_lease) + (select count(*) from codicil_log)
        + (select count(*) from codicil_thread)";
    assert_eq!(database.raw().await.row(rows).await.get::<_, i64>(0), 0);
    assert!(matches!(store.delete(&tree, root.id).await, Err(PostgresError::NotFound(_))));
}
