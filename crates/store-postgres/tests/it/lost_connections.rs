//! Connections that are cut at the worst moments, and a database that crashes.

use std::sync::Arc;

use codicil_store_postgres::{LineBatch, PostgresError, PostgresStore};
use futures_util::future::join_all;

use crate::{
    cut_proxy::{CutAt, CutProxy},
    database::{TestDatabase, TestPostgres, batch, new_thread, open_store, read_all, register},
};

const APPEND: &str = "from codicil_append(";
const CREATE: &str = "insert into codicil_thread";

#[tokio::test]
async fn an_append_whose_connection_is_cut_is_stored_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let proxy = CutProxy::start(&database.server).await;
    let store = open_store(&database.address_at(proxy.port)).await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let cuts = [CutAt::BeforeRequest, CutAt::AfterRequest, CutAt::WhileRunning, CutAt::AfterRequest];
    for (at, cut) in (1..).zip(cuts) {
        proxy.cut(APPEND, cut);
        store.append(batch(thread.id, tree.epoch, at as u64)).await.unwrap();
        proxy.until_cut(at).await;
    }
    assert_eq!(read_all(&store, thread.id).await.lines().count(), 1 + cuts.len());
    database.check().await;
}

#[tokio::test]
async fn a_cut_append_that_is_still_running_is_stored_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let proxy = CutProxy::start(&database.server).await;
    let store = open_store(&database.address_at(proxy.port)).await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let raw = database.raw().await;
    raw.run(&format!("begin; select from codicil_lease where thread = '{}' for update", thread.id)).await;

    proxy.cut(APPEND, CutAt::WhileRunning);
    let release = async {
        // The statement of the lost connection waits for the lock, and so does the repetition.
        database.until_waiting(2).await;
        raw.run("rollback").await;
    };
    let (stored, ()) = tokio::join!(store.append(batch(thread.id, tree.epoch, 1)), release);
    stored.unwrap();
    assert_eq!(read_all(&store, thread.id).await.lines().count(), 2);
    database.check().await;
}

#[tokio::test]
async fn an_overtaken_append_whose_answer_is_lost_is_overtaken() {
    let Some(database) = TestDatabase::create().await else { return };
    let proxy = CutProxy::start(&database.server).await;
    let store = open_store(&database.address_at(proxy.port)).await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    let take = format!("update codicil_lease set epoch = epoch + 1 where thread = '{}'", thread.id);
    database.raw().await.run(&take).await;
    for cut in [CutAt::BeforeRequest, CutAt::AfterRequest] {
        proxy.cut(APPEND, cut);
        let error = store.append(batch(thread.id, tree.epoch, 1)).await.unwrap_err();
        assert!(matches!(error, PostgresError::Overtaken { .. }), "{error}");
    }
    database.check().await;
}

#[tokio::test]
async fn a_thread_whose_creation_is_cut_is_created_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let proxy = CutProxy::start(&database.server).await;
    let store = open_store(&database.address_at(proxy.port)).await;
    let node = register(&store, "a").await;
    for (at, cut) in (1..).zip([CutAt::BeforeRequest, CutAt::AfterRequest, CutAt::WhileRunning]) {
        let thread = new_thread();
        proxy.cut(CREATE, cut);
        let tree = store.create(node.identity(), &thread).await.unwrap();
        proxy.until_cut(2 * at - 1).await;
        let child = new_thread();
        proxy.cut(CREATE, cut);
        store.spawn_child(&tree, &child).await.unwrap();
        proxy.until_cut(2 * at).await;
        assert_eq!(store.tree(&tree).await.unwrap().len(), 2);
    }
    database.check().await;
}

/// Everything that was reported as stored is there after each crash, and appends continue by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_database_loses_nothing_that_was_reported() {
    let Some(server) = TestPostgres::start() else { return };
    let database = TestDatabase::create_on(Arc::new(server)).await;
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let threads: Vec<_> = (0..8).map(|_| new_thread()).collect();
    let trees = join_all(threads.iter().map(|thread| store.create(node.identity(), thread))).await;
    let (progress, mut seen) = tokio::sync::watch::channel(0_u64);
    let write = |at: usize| {
        let (store, progress) = (&store, &progress);
        let (thread, epoch) = (threads[at].id, trees[at].as_ref().unwrap().epoch);
        async move {
            for ordinal in 1..=60 {
                append_patiently(store, batch(thread, epoch, ordinal)).await;
                progress.send_modify(|stored| *stored += 1);
            }
        }
    };
    let server = database.server.clone();
    let crashes = tokio::spawn(async move {
        for stored in [50, 200, 350] {
            seen.wait_for(|seen| *seen >= stored).await.unwrap();
            let server = server.clone();
            tokio::task::spawn_blocking(move || server.crash_and_restart()).await.unwrap();
        }
    });
    join_all((0..threads.len()).map(write)).await;
    crashes.await.unwrap();
    for thread in &threads {
        let expected: String = (0..=60).map(|ordinal| format!("{{\"ordinal\":{ordinal}}}\n")).collect();
        assert_eq!(read_all(&store, thread.id).await, expected);
    }
    database.check().await;
}

/// Appends a batch. The database may be away for longer than the store waits; then the thread is read again.
async fn append_patiently(store: &PostgresStore, batch: LineBatch) {
    while let Err(error) = store.append(batch.clone()).await {
        assert!(matches!(error, PostgresError::Unavailable(_)), "{error}");
        let end = loop {
            match store.read_lines(batch.thread, batch.ordinals.start).await {
                Ok(page) => break page.next,
                Err(error) => assert!(matches!(error, PostgresError::Unavailable(_)), "{error}"),
            }
        };
        if end == batch.ordinals.end {
            return;
        }
    }
}
