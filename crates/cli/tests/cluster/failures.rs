//! A database that cannot be reached.

use std::sync::Arc;

use codicil_protocol::{
    CodicilSubscribe, CodicilSubscribeParams, ModelList, ThreadList, ThreadListParams, ThreadResume,
    ThreadResumeParams, ThreadStart, ThreadStartParams, TurnStatus,
};
use codicil_testkit::{FoldedThread, Reply, Script};
use serde_json::{from_value, json};

use crate::{
    codicil,
    database::{TestDatabase, TestPostgres},
    server,
};

#[tokio::test]
async fn a_server_goes_on_without_its_database_and_recovers() {
    let Some(postgres) = TestPostgres::start() else { return };
    let postgres = Arc::new(postgres);
    let database = TestDatabase::create_on(postgres.clone()).await;
    let script = Script::new().repeat(Reply::new().say("done"));
    let mut app = server(&database, script).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "hello").await;
    app.rest().await;

    postgres.stop();
    let error = app.try_call::<ThreadList>(ThreadListParams::default()).await.unwrap_err();
    assert_eq!(error.data.unwrap()["codicil"]["code"], "storeUnavailable", "{}", error.message);
    assert!(error.message.contains("the database is not available"), "{}", error.message);
    app.call::<ModelList>(from_value(json!({})).unwrap()).await;

    postgres.start_again();
    let resumed = loop {
        // The server registers again first: its lease has ended.
        let params = ThreadResumeParams::new(thread.id.clone());
        match app.try_call::<ThreadResume>(params).await {
            Ok(resumed) => break resumed.thread,
            Err(error) => assert_eq!(error.data.unwrap()["codicil"]["code"], "storeUnavailable"),
        }
    };
    assert_eq!(resumed.turns.len(), 1);
    assert_eq!(app.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    app.ignore_rest();
    drop(app);
    database.check().await;
}

#[tokio::test]
async fn a_client_with_a_cursor_gets_the_end_of_its_turn_once_after_an_outage() {
    let Some(postgres) = TestPostgres::start() else { return };
    let postgres = Arc::new(postgres);
    let database = TestDatabase::create_on(postgres.clone()).await;
    let script = Script::new().say("Before ").unfinished().gate("end").say("and after");
    let mut app = server(&database, script).cursor().start().await;
    let cwd = Some(app.workspace().to_string_lossy().into_owned());
    let started = app.call::<ThreadStart>(ThreadStartParams { cwd, ..Default::default() }).await;
    let thread = started.thread;
    let mut known = FoldedThread::at(started.seq);
    let turn = app.start_turn(&thread, "hello").await;
    while !known.is_running() {
        known.add(&app.next_received().await.unwrap());
    }
    postgres.stop();
    app.model().release("end");
    // The server gives up the thread when its lease ends.
    loop {
        let message = app.next_received().await.unwrap();
        known.add(&message);
        if message.method == "thread/closed" {
            break;
        }
    }
    assert!(!known.has_ended(&turn.id), "the end of the turn is not stored");

    postgres.start_again();
    let answer = loop {
        let params = CodicilSubscribeParams::new(thread.id.clone());
        match app
            .try_call::<CodicilSubscribe>(CodicilSubscribeParams { after: known.after(), ..params })
            .await
        {
            Ok(answer) => break answer,
            Err(error) => assert_eq!(error.data.unwrap()["codicil"]["code"], "storeUnavailable"),
        }
    };
    known.subscribed(&answer);
    while !known.has_ended(&turn.id) {
        known.add(&app.next_received().await.unwrap());
    }
    known.check(&app.read(&thread).await);
    app.ignore_rest();
    drop(app);
    database.check().await;
}

#[test]
fn a_database_that_is_not_there_is_reported_without_its_password() {
    let home = tempfile::tempdir().unwrap();
    for url in [
        "postgres://me:verysecret@127.0.0.1:1/codicil?sslmode=disable&connect_timeout=1",
        "postgres://me:verysecret@127.0.0.1:1/codicil?colour=red",
    ] {
        let output = codicil(home.path(), &["app-server", "--store", url]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && !error.contains("verysecret"), "{error}");
    }
}
