//! One server over a database does what a server over files does.

use codicil_protocol::{
    ThreadArchive, ThreadDelete, ThreadFork, ThreadForkParams, ThreadList, ThreadListParams, ThreadNameSet,
    ThreadRead, ThreadSearch, ThreadUnarchive, TurnStatus,
};
use codicil_testkit::{Reply, Script};
use serde_json::{from_value, json};

use crate::{database::TestDatabase, server};

#[tokio::test]
async fn threads_survive_restarts_without_a_file() {
    let Some(database) = TestDatabase::create().await else { return };
    let script = Script::new().repeat(Reply::new().say("the needle"));
    let mut app = server(&database, script).start().await;
    let thread = app.start_thread().await;
    assert_eq!(thread.path, None);
    assert_eq!(app.run_turn(&thread, "find it").await.status, TurnStatus::Completed);
    app.call::<ThreadNameSet>(from_value(json!({ "threadId": thread.id, "name": "hay" })).unwrap()).await;
    app.rest().await;

    app.restart().await;
    let listed = app.call::<ThreadList>(ThreadListParams::default()).await.data;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].preview.as_str(), listed[0].name.as_deref()), ("find it", Some("hay")));
    let resumed = app.resume(&thread).await;
    assert_eq!(resumed.turns.len(), 1);
    assert_eq!(app.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    // The model has the whole conversation.
    let asked = app.model().requests().last().unwrap().body().to_string();
    assert!(asked.contains("find it") && asked.contains("the needle") && asked.contains("again"), "{asked}");

    let found = app.call::<ThreadSearch>(from_value(json!({ "searchTerm": "NEEDLE" })).unwrap()).await;
    assert_eq!(found.data.len(), 1);
    let fork = app.call::<ThreadFork>(ThreadForkParams::new(thread.id.clone())).await.thread;
    assert_eq!(app.read(&fork).await.turns.len(), 2);
    let params = |id: &codicil_protocol::ThreadId| json!({ "threadId": id });
    app.call::<ThreadArchive>(from_value(params(&fork.id)).unwrap()).await;
    assert_eq!(app.call::<ThreadList>(ThreadListParams::default()).await.data.len(), 1);
    app.call::<ThreadUnarchive>(from_value(params(&fork.id)).unwrap()).await;
    assert_eq!(app.call::<ThreadList>(ThreadListParams::default()).await.data.len(), 2);
    app.call::<ThreadDelete>(from_value(params(&fork.id)).unwrap()).await;
    app.try_call::<ThreadRead>(from_value(params(&fork.id)).unwrap()).await.unwrap_err();
    assert!(!app.home().join("sessions").exists() && !app.home().join("codicil_index.sqlite").exists());
    app.ignore_rest();
    drop(app);
    database.check().await;
}

#[tokio::test]
async fn the_database_is_named_by_the_environment_and_the_configuration() {
    let Some(database) = TestDatabase::create().await else { return };
    let with = |name: &str| Script::new().say(name);
    let mut app = codicil_testkit::App::builder()
        .script(with("one"))
        .over(codicil_testkit::TestTransport::Stdio)
        .environment("CODICIL_STORE", &database.address())
        .start()
        .await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "from the environment").await;
    app.rest().await;
    drop(app);
    let config = format!("[codicil.store]\nurl = {:?}\n", database.address());
    let mut app = codicil_testkit::App::builder()
        .script(Script::new())
        .over(codicil_testkit::TestTransport::Stdio)
        .config(&config)
        .start()
        .await;
    assert_eq!(app.read(&thread).await.preview, "from the environment");
    app.rest().await;
}
