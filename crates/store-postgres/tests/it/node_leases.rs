//! Leases of nodes: registered, renewed, lost and released.

use std::time::Duration;

use codicil_store_postgres::{Claim, NodeLease, NodeSettings, PostgresError};

use crate::database::{TestDatabase, expire, new_thread, node_settings, register};

#[tokio::test]
async fn a_name_is_taken_until_its_lease_has_ended() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    assert!(first.may_act());
    let error = NodeLease::register(&store, node_settings("a", 600)).await.err().unwrap();
    assert!(
        matches!(&error, PostgresError::NameInUse { remaining, .. } if remaining.as_secs() > 60),
        "{error}"
    );
    expire(&database, first.identity()).await;
    let second = register(&store, "a").await;
    assert_ne!(first.identity().run, second.identity().run);
    assert_eq!(store.nodes().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lease_is_renewed() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let lease = NodeLease::register(&store, node_settings("a", 12)).await.unwrap();
    let raw = database.raw().await;
    let until = async || raw.row("select until::text from codicil_node").await.get::<_, String>(0);
    let first = until().await;
    while until().await == first {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(lease.may_act());
}

#[tokio::test]
async fn a_node_that_was_buried_stops() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let lease = NodeLease::register(&store, node_settings("a", 12)).await.unwrap();
    database.raw().await.run("update codicil_node set until = '-infinity'").await;
    lease.lost().await;
    assert!(!lease.may_act());

    let again = lease.register_again().await.unwrap();
    assert!(again.may_act());
}

#[tokio::test]
async fn a_node_that_cannot_renew_stops_by_itself() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let settings = NodeSettings { ttl: Duration::from_millis(900), ..node_settings("a", 0) };
    let lease = NodeLease::register(&store, settings).await.unwrap();
    let raw = database.raw().await;
    // Renewals wait for the lock.
    raw.run("begin; select from codicil_node for update").await;
    lease.lost().await;
    assert!(!lease.may_act());
    raw.run("rollback").await;

    let old = lease.identity().clone();
    let again = lease.register_again().await.unwrap();
    assert_ne!(again.identity().run, old.run);
}

#[tokio::test]
async fn a_planned_stop_releases_all_threads_at_once() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let first = register(&store, "a").await;
    let second = register(&store, "b").await;
    let (root, child) = (new_thread(), new_thread());
    let tree = store.create(first.identity(), &root).await.unwrap();
    store.spawn_child(&tree, &child).await.unwrap();
    let claim = store.claim(second.identity(), root.id).await.unwrap();
    assert!(matches!(claim, Claim::OwnedElsewhere(owner) if owner.url == "ws://a:1"));
    let trees: Vec<_> = store.nodes().await.unwrap().iter().map(|node| node.trees).collect();
    assert_eq!(trees, [1, 0]);

    first.release().await.unwrap();
    let Claim::Held(taken) = store.claim(second.identity(), child.id).await.unwrap() else {
        panic!("the tree is free");
    };
    assert_eq!(store.tree(&taken).await.unwrap().len(), 2);
    database.check().await;
}
