//! Takeover: from dead nodes, from each other, and at the moments that the model found.

use std::sync::Arc;

use codicil_store_postgres::{
    Claim, LineBatch, NewThread, NodeIdentity, PostgresError, PostgresStore, RowChange, ThreadState,
    TreeLease,
};
use futures_util::future::join_all;
use uuid::Uuid;

use crate::database::{TestDatabase, batch, expire, new_thread, read_all, register};

async fn take(store: &PostgresStore, node: &NodeIdentity, thread: Uuid) -> TreeLease {
    match store.claim(node, thread).await.unwrap() {
        Claim::Held(tree) => tree,
        Claim::OwnedElsewhere(owner) => panic!("owned by {owner:?}"),
    }
}

#[tokio::test]
async fn the_threads_of_a_dead_node_are_taken_with_their_children() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    let second = register(&store, "b").await;
    let (root, child) = (new_thread(), new_thread());
    let old = store.create(first.identity(), &root).await.unwrap();
    store.spawn_child(&old, &child).await.unwrap();
    let runs = RowChange { state: Some(ThreadState::Running), ..RowChange::default() };
    store.append(LineBatch { change: runs, ..batch(child.id, old.epoch, 1) }).await.unwrap();
    assert!(store.abandoned_trees(&["a".to_owned()], 10).await.unwrap().is_empty());

    expire(&database, first.identity()).await;
    assert_eq!(store.abandoned_trees(&["a".to_owned()], 10).await.unwrap(), [root.id]);
    assert!(store.abandoned_trees(&["b".to_owned()], 10).await.unwrap().is_empty());
    let new = take(&store, second.identity(), child.id).await;
    assert_eq!((new.root, new.epoch.0), (root.id, old.epoch.0 + 1));

    // The earlier owner is fenced: it can neither append nor add a thread.
    for thread in [root.id, child.id] {
        let next = store.read_lines(thread, 0).await.unwrap().next;
        let error = store.append(batch(thread, old.epoch, next)).await.unwrap_err();
        assert!(matches!(error, PostgresError::Overtaken { .. }), "{error}");
        store.append(batch(thread, new.epoch, next)).await.unwrap();
    }
    let error = store.spawn_child(&old, &new_thread()).await.unwrap_err();
    assert!(matches!(error, PostgresError::Overtaken { .. }), "{error}");
    assert!(matches!(store.tree(&old).await, Err(PostgresError::Overtaken { .. })));
    database.check().await;
}

#[tokio::test]
async fn a_released_thread_is_taken_and_an_own_one_is_kept() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    let second = register(&store, "b").await;
    let thread = new_thread();
    let tree = store.create(first.identity(), &thread).await.unwrap();
    assert_eq!(take(&store, first.identity(), thread.id).await, tree);
    store.release(&tree).await.unwrap();
    let taken = take(&store, second.identity(), thread.id).await;
    assert_eq!(taken.epoch.0, tree.epoch.0 + 1);
    assert!(matches!(store.claim(first.identity(), thread.id).await.unwrap(), Claim::OwnedElsewhere(_)));
    assert!(matches!(store.claim(first.identity(), Uuid::now_v7()).await, Err(PostgresError::NotFound(_))));
    database.check().await;
}

/// The insertion of a child holds the lock on the root until another transaction lets it continue.
async fn check_child_is_inserted_meanwhile<F>(database: &TestDatabase, takeover: F) -> (TreeLease, Uuid)
where
    F: AsyncFnOnce(&PostgresStore, &NodeIdentity, TreeLease),
{
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    let second = register(&store, "b").await;
    let (root, child) = (new_thread(), new_thread());
    let old = store.create(first.identity(), &root).await.unwrap();
    expire(database, first.identity()).await;
    let raw = database.raw().await;
    let insert = format!("insert into codicil_log values ('{}', 0, 1, 1, '\\x0a')", child.id);
    raw.run(&format!("begin; {insert}")).await;
    let order = async {
        database.until_waiting(2).await;
        raw.run("rollback").await;
    };
    let takes_over = async {
        database.until_waiting(1).await;
        takeover(&store, second.identity(), old).await;
    };
    let (spawned, (), ()) = tokio::join!(store.spawn_child(&old, &child), takes_over, order);
    spawned.unwrap();
    (old, child.id)
}

#[tokio::test]
async fn a_child_that_is_inserted_during_a_takeover_is_taken() {
    let Some(database) = TestDatabase::create().await else { return };
    let claim = async |store: &PostgresStore, node: &NodeIdentity, old: TreeLease| {
        let new = take(store, node, old.root).await;
        assert_eq!(store.tree(&new).await.unwrap().len(), 2);
    };
    let (old, child) = check_child_is_inserted_meanwhile(&database, claim).await;
    let store = database.open_store().await;
    let error = store.append(batch(child, old.epoch, 1)).await.unwrap_err();
    assert!(matches!(error, PostgresError::Overtaken { .. }), "{error}");
    database.check().await;
}

/// Shows that the race of the model is one of PostgreSQL, too.
#[tokio::test]
async fn a_takeover_in_one_statement_would_miss_the_child() {
    let Some(database) = TestDatabase::create().await else { return };
    let raw = database.raw().await;
    let naive = async |_: &PostgresStore, node: &NodeIdentity, old: TreeLease| {
        let sql = "update codicil_lease set epoch = epoch + 1, node = $2, run = $3 where root = $1";
        assert_eq!(raw.client.execute(sql, &[&old.root, &node.name, &node.run]).await.unwrap(), 1);
    };
    let (old, child) = check_child_is_inserted_meanwhile(&database, naive).await;
    // The earlier owner can still write to the child.
    database.open_store().await.append(batch(child, old.epoch, 1)).await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_began_in_time_prevents_the_takeover() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    let second = register(&store, "b").await;
    let thread = new_thread();
    let tree = store.create(first.identity(), &thread).await.unwrap();
    expire(&database, first.identity()).await;
    let raw = database.raw().await;
    raw.run("begin; update codicil_node set until = now() + interval '1 hour' where name = 'a'").await;
    let commit = async {
        database.until_waiting(1).await;
        raw.run("commit").await;
    };
    let (claim, ()) = tokio::join!(store.claim(second.identity(), thread.id), commit);
    assert!(matches!(claim.unwrap(), Claim::OwnedElsewhere(owner) if owner.identity == *first.identity()));
    store.append(batch(thread.id, tree.epoch, 1)).await.unwrap();
    database.check().await;
}

#[tokio::test]
async fn of_many_nodes_one_takes_a_thread() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let dead = register(&store, "dead").await;
    let thread = new_thread();
    store.create(dead.identity(), &thread).await.unwrap();
    expire(&database, dead.identity()).await;
    let names: Vec<_> = (0..8).map(|number| format!("node{number}")).collect();
    let nodes = join_all(names.iter().map(|name| register(&store, name))).await;
    let claims = join_all(nodes.iter().map(|node| store.claim(node.identity(), thread.id))).await;
    let held = claims.iter().filter(|claim| matches!(claim, Ok(Claim::Held(_)))).count();
    assert!(claims.iter().all(Result::is_ok), "{claims:?}");
    assert_eq!(held, 1);
    database.check().await;
}

/// Two nodes write the same thread as fast as they can while it is taken back and forth: whatever was reported as stored is
/// in the log, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_changes_its_owner_all_the_time_has_one_writer() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = Arc::new(database.open_store().await);
    let nodes = [register(&store, "a").await, register(&store, "b").await];
    let thread = new_thread().id;
    store.create(nodes[0].identity(), &NewThread { id: thread, ..new_thread() }).await.unwrap();
    let mut stored = Vec::new();
    for round in 0..12 {
        let node = nodes[round % 2].identity().clone();
        let tree = take(&store, &node, thread).await;
        let next = store.read_lines(thread, 0).await.unwrap().next;
        let writer =
            tokio::spawn(write_until_overtaken(store.clone(), tree, thread, next, node.name.clone()));
        // The owner is released by another node in the middle of its appends, and taken by the next round.
        while store.read_lines(thread, next).await.unwrap().next < next + 3 {
            tokio::task::yield_now().await;
        }
        store.release(&tree).await.unwrap();
        let following = nodes[(round + 1) % 2].identity();
        take(&store, following, thread).await;
        stored.extend(writer.await.unwrap());
    }
    let text = read_all(&store, thread).await;
    for line in &stored {
        assert_eq!(text.matches(line.as_str()).count(), 1, "{line}");
    }
    database.check().await;
}

/// Appends until another node has taken the thread. Returns the lines that were reported as stored.
async fn write_until_overtaken(
    store: Arc<PostgresStore>,
    tree: TreeLease,
    thread: Uuid,
    mut next: u64,
    writer: String,
) -> Vec<String> {
    let mut stored = Vec::new();
    loop {
        let line = format!("{{\"ordinal\":{next},\"writer\":\"{writer}\",\"epoch\":{}}}\n", tree.epoch.0);
        let lines = line.clone().into_bytes();
        match store.append(LineBatch { lines, ..batch(thread, tree.epoch, next) }).await {
            Ok(()) => stored.push(line),
            Err(PostgresError::Overtaken { .. }) => return stored,
            Err(error) => panic!("{error}"),
        }
        next += 1;
    }
}
