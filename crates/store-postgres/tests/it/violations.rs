//! The checker finds what must not be.

use codicil_store_postgres::ViolatedRule;

use crate::database::{TestDatabase, batch, new_thread, register};

/// Damages a sound database with a statement and checks what is reported.
async fn check(damage: &str, expected: &[ViolatedRule]) {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let thread = new_thread();
    let tree = store.create(node.identity(), &thread).await.unwrap();
    for ordinal in 1..4 {
        store.append(batch(thread.id, tree.epoch, ordinal)).await.unwrap();
    }
    assert_eq!(store.find_violations().await.unwrap(), []);
    database.raw().await.run(damage).await;
    let found: Vec<_> = store.find_violations().await.unwrap().iter().map(|found| found.rule).collect();
    assert_eq!(found, expected, "{damage}");
}

#[tokio::test]
async fn damage_is_reported() {
    use ViolatedRule::{End, Entry, Epochs, Fence, Gaps, LineCount, Orphan, Overlaps, Tree};
    check("delete from codicil_log where first = 2", &[Gaps]).await;
    check("update codicil_log set next = 3 where first = 1", &[Overlaps, LineCount]).await;
    check("delete from codicil_log", &[Orphan]).await;
    check("delete from codicil_log where first = 3", &[End]).await;
    check("update codicil_log set epoch = 0 where first = 2", &[Epochs]).await;
    check("update codicil_log set epoch = 9 where first = 3", &[Fence]).await;
    check("update codicil_log set lines = '' where first = 2", &[LineCount]).await;
    check("update codicil_lease set root = gen_random_uuid()", &[Tree, Entry]).await;
    check("delete from codicil_thread", &[Entry]).await;
    check("delete from codicil_lease", &[Orphan, Entry]).await;
}
