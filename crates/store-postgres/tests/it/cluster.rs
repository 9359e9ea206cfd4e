//! Stores of several nodes over one database.

use std::{sync::Arc, time::Duration};

use codicil_protocol::{SessionSource, TurnId};
use codicil_store::{
    Record, RunState, Store, StoreError, ThreadHome, ThreadMeta, ThreadPlacement, TransferOutcome,
    WorkspaceUse, new_thread_id,
};
use codicil_store_postgres::{BackendSettings, DatabaseAddress, PostgresBackend, SharedPlaces, ViolatedRule};
use tempfile::TempDir;

use crate::database::{TestDatabase, expire};

/// A node with its store.
pub struct NodeHome {
    pub store: Store,
    _dir: TempDir,
    _database: Option<TestDatabase>,
}

/// Opens a store for the conformance suite.
pub async fn conformance_home() -> Option<NodeHome> {
    let database = TestDatabase::create().await?;
    let node = open_node(&database, "a", SharedPlaces::default()).await;
    Some(NodeHome { _database: Some(database), ..node })
}

async fn open_node(database: &TestDatabase, name: &str, places: SharedPlaces) -> NodeHome {
    let settings = BackendSettings {
        name: name.to_owned(),
        disk: name.to_owned(),
        url: format!("ws://{name}:1"),
        places,
        ttl: Duration::from_secs(600),
    };
    let address = DatabaseAddress::parse(&database.address()).unwrap();
    let backend = PostgresBackend::open(address, settings).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_shared(dir.path(), Arc::new(backend)).unwrap();
    NodeHome { store, _dir: dir, _database: None }
}

fn meta(cwd: &str) -> ThreadMeta {
    ThreadMeta::new(new_thread_id(), cwd, SessionSource::Vscode, "mock")
}

fn name(name: &str) -> [Record; 1] {
    [Record::Name { name: name.to_owned() }]
}

/// Lets the lease of the node with this store end.
async fn lose_lease(database: &TestDatabase, store: &Store) {
    let run = store.begin_run().await.unwrap().unwrap();
    let identity = codicil_store_postgres::NodeIdentity { name: String::new(), run: run.parse().unwrap() };
    expire(database, &identity).await;
}

#[tokio::test]
async fn a_thread_belongs_to_one_node_until_it_stops() {
    let Some(database) = TestDatabase::create().await else { return };
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    let b = open_node(&database, "b", SharedPlaces::default()).await;
    let mut log = a.store.create(meta("/work")).await.unwrap();
    let id = log.id().clone();
    let Err(StoreError::OwnedElsewhere { node, url, .. }) = b.store.open_log(&id).await else {
        panic!("the thread belongs to a")
    };
    assert_eq!((node.as_str(), url.as_str()), ("a", "ws://a:1"));
    let owner = b.store.backend().unwrap().other_owner(&id).await.unwrap().unwrap();
    assert_eq!(
        (owner.name.as_str(), a.store.backend().unwrap().other_owner(&id).await.unwrap()),
        ("a", None)
    );
    let run = a.store.begin_run().await.unwrap().unwrap();
    assert!(matches!(b.store.run_state(&run).await.unwrap(), RunState::Live(_)));
    // Everything but writing works on any node.
    assert_eq!(b.store.read(&id).await.unwrap().meta.cwd, "/work");

    a.store.close().await.unwrap();
    let mut taken = b.store.open_log(&id).await.unwrap();
    assert_eq!(b.store.run_state(&run).await.unwrap(), RunState::Over);
    taken.append(&name("from b")).await.unwrap();
    let error = log.append(&name("from a")).await.unwrap_err();
    assert!(error.to_string().contains("has lost its lease"), "{error}");
    assert_eq!(b.store.read(&id).await.unwrap().name.as_deref(), Some("from b"));
    database.check().await;
}

#[tokio::test]
async fn threads_of_a_dead_node_are_taken_over() {
    let Some(database) = TestDatabase::create().await else { return };
    let volume = SharedPlaces([("code".to_owned(), "/srv".to_owned())].into());
    let a = open_node(&database, "a", volume.clone()).await;
    let b = open_node(&database, "b", volume).await;
    let mut shared = a.store.create(meta("/srv/app")).await.unwrap();
    let own = a.store.create(meta("/home/a")).await.unwrap();
    let run = a.store.begin_run().await.unwrap();
    let turn_id = TurnId::from("turn-1");
    shared.append(&[Record::Turn { turn_id, run }]).await.unwrap();
    assert_eq!(b.store.backend().unwrap().abandoned().await.unwrap(), []);
    lose_lease(&database, &a.store).await;

    assert_eq!(b.store.backend().unwrap().abandoned().await.unwrap(), [shared.id().clone()]);
    let taken = b.store.open_log(shared.id()).await.unwrap();
    assert_eq!(*taken.home(), ThreadHome::Here);
    assert!(matches!(shared.append(&name("late")).await, Err(StoreError::Overtaken { .. })));
    // The other workspace is on the disk of a.
    let taken = b.store.open_log(own.id()).await.unwrap();
    assert_eq!(*taken.home(), ThreadHome::Node("a".to_owned()));
    b.store.backend().unwrap().rehome(own.id(), "/home/b").await.unwrap();
    let taken = b.store.open_log(own.id()).await.unwrap();
    assert_eq!(*taken.home(), ThreadHome::Here);
    database.check().await;
}

#[tokio::test]
async fn a_node_that_was_buried_registers_again() {
    let Some(database) = TestDatabase::create().await else { return };
    let address = DatabaseAddress::parse(&database.address()).unwrap();
    let settings = BackendSettings {
        name: "a".to_owned(),
        disk: "a".to_owned(),
        url: "ws://a:1".to_owned(),
        places: SharedPlaces::default(),
        ttl: Duration::from_secs(1),
    };
    let backend = Arc::new(PostgresBackend::open(address, settings).await.unwrap());
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_shared(dir.path(), backend).unwrap();
    let mut log = store.create(meta("/work")).await.unwrap();
    let first = store.begin_run().await.unwrap();
    let bury = async {
        let raw = database.raw().await;
        raw.run("update codicil_node set until = '-infinity'").await;
    };
    let (lost, ()) = tokio::join!(store.backend().unwrap().fenced(), bury);
    let lost = lost.unwrap();
    // The node registers again when its server has ended everything that it has started.
    assert!(!store.may_act());
    for _ in 0..20 {
        assert!(matches!(store.begin_run().await, Err(StoreError::Unavailable(_))));
        let buried = "select count(*) from codicil_node where until = '-infinity'";
        assert_eq!(database.raw().await.row(buried).await.get::<_, i64>(0), 1);
    }
    assert!(matches!(log.append(&name("lost")).await, Err(StoreError::Unavailable(_))));
    drop(lost);
    let second = loop {
        match store.begin_run().await {
            Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
            run => break run.unwrap(),
        }
    };
    assert_ne!(first, second);
    let taken = store.open_log(log.id()).await.unwrap();
    assert!(matches!(log.append(&name("old")).await, Err(StoreError::Overtaken { .. })));
    drop(taken);
    store.append_beside(log.id(), name("new")[0].clone()).await.unwrap();
    assert_eq!(store.read(log.id()).await.unwrap().name.as_deref(), Some("new"));
}

#[tokio::test]
async fn a_database_that_is_down_fails_requests_and_comes_back() {
    let Some(server) = crate::database::TestPostgres::start() else { return };
    let server = Arc::new(server);
    let database = TestDatabase::create_on(server.clone()).await;
    let node = open_node(&database, "a", SharedPlaces::default()).await;
    let mut log = node.store.create(meta("/work")).await.unwrap();
    server.crash_and_restart();
    log.append(&name("after the crash")).await.unwrap();
    assert_eq!(node.store.read(log.id()).await.unwrap().name.as_deref(), Some("after the crash"));
    database.check().await;
}

#[tokio::test]
async fn a_thread_without_open_logs_belongs_to_no_node() {
    let Some(database) = TestDatabase::create().await else { return };
    let volume = SharedPlaces([("code".to_owned(), "/srv".to_owned())].into());
    let a = open_node(&database, "a", volume.clone()).await;
    let b = open_node(&database, "b", volume).await;
    let shared = a.store.create(meta("/srv/app")).await.unwrap();
    let own = a.store.create(meta("/home/a")).await.unwrap();
    let (shared_id, own_id) = (shared.id().clone(), own.id().clone());
    let second = a.store.open_log(&shared_id).await.unwrap();
    drop(shared);
    assert!(matches!(b.store.open_log(&shared_id).await, Err(StoreError::OwnedElsewhere { .. })));
    drop(second);
    let mut taken = loop {
        match b.store.open_log(&shared_id).await {
            Err(StoreError::OwnedElsewhere { .. }) => tokio::task::yield_now().await,
            taken => break taken.unwrap(),
        }
    };
    taken.append(&name("from b")).await.unwrap();

    // A workspace that is on the disk of a live node keeps the thread there, also without an owner.
    drop(own);
    let count = "select count(*) from codicil_lease where node is not null and thread = root";
    while database.raw().await.row(count).await.get::<_, i64>(0) > 1 {
        tokio::task::yield_now().await;
    }
    let error = b.store.open_log(&own_id).await.err().unwrap();
    assert!(matches!(&error, StoreError::OwnedElsewhere { node, .. } if node == "a"), "{error}");
    let home = b.store.backend().unwrap().other_owner(&own_id).await.unwrap().unwrap();
    assert_eq!(home.name, "a");
    a.store.open_log(&own_id).await.unwrap();
    database.check().await;
}

#[tokio::test]
async fn a_thread_without_files_and_commands_is_taken_over_by_any_node() {
    let Some(database) = TestDatabase::create().await else { return };
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    let b = open_node(&database, "b", SharedPlaces::default()).await;
    let placement = ThreadPlacement { workspace: WorkspaceUse::None, ..ThreadPlacement::default() };
    let mut log = a.store.create_at(meta("/home/a"), Vec::new(), placement).await.unwrap();
    let run = a.store.begin_run().await.unwrap();
    log.append(&[Record::Turn { turn_id: TurnId::from("turn-1"), run }]).await.unwrap();
    lose_lease(&database, &a.store).await;
    assert_eq!(b.store.backend().unwrap().abandoned().await.unwrap(), [log.id().clone()]);
    assert_eq!(*b.store.open_log(log.id()).await.unwrap().home(), ThreadHome::Here);
}

#[tokio::test]
async fn a_subagent_is_not_created_below_a_parent_that_was_taken() {
    let Some(database) = TestDatabase::create().await else { return };
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    let parent = a.store.create(meta("/work")).await.unwrap();
    let child = || ThreadMeta { parent_thread_id: Some(parent.id().clone()), ..meta("/work") };
    let placement = ThreadPlacement { parent_epoch: parent.epoch(), ..ThreadPlacement::default() };
    a.store.create_at(child(), Vec::new(), placement).await.unwrap();
    // Another node has taken the tree and released it again.
    database.raw().await.run("update codicil_lease set epoch = epoch + 2, node = null, run = null").await;
    let error = a.store.create_at(child(), Vec::new(), placement).await.err().unwrap();
    assert!(matches!(error, StoreError::Overtaken { .. }), "{error}");
    database.check().await;
}

#[tokio::test]
async fn a_new_place_is_that_of_the_whole_tree() {
    let Some(database) = TestDatabase::create().await else { return };
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    let b = open_node(&database, "b", SharedPlaces::default()).await;
    let parent = a.store.create(meta("/home/a")).await.unwrap();
    let child = ThreadMeta { parent_thread_id: Some(parent.id().clone()), ..meta("/home/a/part") };
    let child = a.store.create(child).await.unwrap();
    a.store.close().await.unwrap();
    b.store.backend().unwrap().rehome(parent.id(), "/home/b").await.unwrap();
    assert_eq!(*b.store.open_log(child.id()).await.unwrap().home(), ThreadHome::Here);
}

#[tokio::test]
async fn subagents_are_copied_into_the_tree_of_their_parent() {
    let Some(database) = TestDatabase::create().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = Store::open(dir.path()).unwrap();
    let parent = files.create(meta("/work")).await.unwrap();
    let child = ThreadMeta { parent_thread_id: Some(parent.id().clone()), ..meta("/work") };
    let child = files.create(child).await.unwrap();
    let threads = files.all_threads().await.unwrap();
    assert_eq!(threads, [parent.id().clone(), child.id().clone()]);
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    for thread in &threads {
        assert_eq!(files.copy_thread(thread, &a.store).await.unwrap(), TransferOutcome::Copied);
    }
    let roots = database.raw().await.row("select count(distinct root) from codicil_lease").await;
    assert_eq!(roots.get::<_, i64>(0), 1);
    database.check().await;

    database
        .raw()
        .await
        .run("update codicil_lease set root = thread; update codicil_thread set root = id")
        .await;
    let violations = database.open_store().await.find_violations().await.unwrap();
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].rule, ViolatedRule::Tree);
}

#[tokio::test]
async fn a_copy_that_was_cut_off_is_completed() {
    let Some(database) = TestDatabase::create().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = Store::open(dir.path()).unwrap();
    let mut log = files.create(meta("/work")).await.unwrap();
    // More than is written at once.
    let text = "word ".repeat(600);
    let names: Vec<_> = (0..7000).map(|number| Record::Name { name: format!("{number} {text}") }).collect();
    log.append(&names).await.unwrap();
    let a = open_node(&database, "a", SharedPlaces::default()).await;
    let copy = || files.copy_thread(log.id(), &a.store);
    assert_eq!(copy().await.unwrap(), TransferOutcome::Copied);
    // As if the program had been killed between two steps.
    let cut = "with cut as (delete from codicil_log where first > 0 returning first)
        update codicil_lease set next = (select min(first) from cut)";
    database.raw().await.run(cut).await;
    assert_eq!(copy().await.unwrap(), TransferOutcome::Copied);
    assert_eq!(copy().await.unwrap(), TransferOutcome::Present);
    database.check().await;
}
