//! Appends: order, fences, and commits that several threads share.

use codicil_store_postgres::{Epoch, LineBatch, PostgresError, RowChange, ThreadState};
use futures_util::future::join_all;

use crate::database::{TestDatabase, batch, new_thread, read_all, register};

#[tokio::test]
async fn appended_lines_are_read_from_any_ordinal() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let two = LineBatch {
        ordinals: 1..3,
        lines: b"{\"ordinal\":1}\n{\"ordinal\":2}\n".to_vec(),
        ..batch(thread.id, tree.epoch, 1)
    };
    store.append(two).await.unwrap();
    store.append(batch(thread.id, tree.epoch, 3)).await.unwrap();

    assert_eq!(read_all(&store, thread.id).await.lines().count(), 4);
    let page = store.read_lines(thread.id, 2).await.unwrap();
    assert_eq!(String::from_utf8(page.lines).unwrap(), "{\"ordinal\":2}\n{\"ordinal\":3}\n");
    assert_eq!((page.next, page.has_more), (4, false));
    let end = store.read_lines(thread.id, 4).await.unwrap();
    assert!(end.lines.is_empty() && end.next == 4 && !end.has_more);
    database.check().await;
}

#[tokio::test]
async fn an_append_at_another_end_or_epoch_is_overtaken() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    store.append(batch(thread.id, tree.epoch, 1)).await.unwrap();
    let missing = new_thread().id;
    for overtaken in [
        batch(thread.id, tree.epoch, 1),
        batch(thread.id, tree.epoch, 3),
        batch(thread.id, Epoch(tree.epoch.0 - 1), 2),
        batch(thread.id, Epoch(tree.epoch.0 + 1), 2),
        batch(missing, tree.epoch, 0),
    ] {
        let error = store.append(overtaken).await.unwrap_err();
        assert!(matches!(error, PostgresError::Overtaken { .. }), "{error}");
    }
    assert_eq!(read_all(&store, thread.id).await.lines().count(), 2);
    database.check().await;
}

#[tokio::test]
async fn appends_of_many_threads_share_commits() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let threads: Vec<_> = (0..100).map(|_| new_thread()).collect();
    let trees = join_all(threads.iter().map(|thread| store.create(node.identity(), thread))).await;
    let raw = database.raw().await;
    raw.run("create table created as select xmin::text as transaction from codicil_log").await;

    let write = |at: usize| {
        let (store, thread, epoch) = (&store, threads[at].id, trees[at].as_ref().unwrap().epoch);
        async move {
            for ordinal in 1..=10 {
                store.append(batch(thread, epoch, ordinal)).await.unwrap();
            }
        }
    };
    join_all((0..threads.len()).map(write)).await;

    let sql = "select count(*), count(distinct xmin::text) from codicil_log
        where xmin::text not in (select transaction from created)";
    let row = raw.row(sql).await;
    let (batches, commits): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(batches, 1000);
    assert!(commits <= 100, "{commits} commits");
    database.check().await;
}

#[tokio::test]
async fn a_refused_batch_does_not_fail_the_others() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let threads: Vec<_> = (0..5).map(|_| new_thread()).collect();
    let trees = join_all(threads.iter().map(|thread| store.create(node.identity(), thread))).await;
    let appends = threads.iter().zip(&trees).enumerate().map(|(at, (thread, tree))| {
        let epoch = tree.as_ref().unwrap().epoch;
        // The third one violates a condition of the table: it has no lines.
        let ordinals = if at == 2 { 1..1 } else { 1..2 };
        store.append(LineBatch { ordinals, ..batch(thread.id, epoch, 1) })
    });
    let results = join_all(appends).await;
    for (at, result) in results.iter().enumerate() {
        assert_eq!(matches!(result, Err(PostgresError::Refused { .. })), at == 2, "{at}: {result:?}");
        assert_eq!(result.is_ok(), at != 2);
    }
    database.check().await;
}

#[tokio::test]
async fn two_appends_to_a_thread_without_waiting_are_both_answered() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let appends = [1, 2, 3].map(|ordinal| store.append(batch(thread.id, tree.epoch, ordinal)));
    assert!(join_all(appends).await.into_iter().all(|result| result.is_ok()));
    database.check().await;
}

#[tokio::test]
async fn an_append_changes_the_list_entry_with_it() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let change = RowChange {
        active_at: Some(thread.updated_at + 5),
        preview: Some("first\0message".to_owned()),
        name: Some("name".to_owned()),
        open_requests: Some(1),
        details: Some("{\"model\":\"m\"}".to_owned()),
        facts: None,
        state: Some(ThreadState::Running),
    };
    store.append(LineBatch { change, ..batch(thread.id, tree.epoch, 1) }).await.unwrap();
    let later = RowChange {
        active_at: Some(thread.updated_at - 5),
        preview: Some("second message".to_owned()),
        ..RowChange::default()
    };
    store.append(LineBatch { change: later, ..batch(thread.id, tree.epoch, 2) }).await.unwrap();

    let row = store.thread(thread.id).await.unwrap();
    assert_eq!(row.updated_at, thread.updated_at + 5);
    assert_eq!(row.preview.as_deref(), Some("first\u{fffd}message"));
    assert_eq!((row.name.as_deref(), row.open_requests), (Some("name"), 1));
    assert_eq!(row.details, "{\"model\":\"m\"}");
    assert_eq!(store.threads_with_requests(thread.id).await.unwrap(), [thread.id]);
    database.check().await;
}
