//! A database that cannot be reached.

use std::sync::Arc;

use codicil_protocol::{
    ModelList, ThreadList, ThreadListParams, ThreadResume, ThreadResumeParams, TurnStatus,
};
use codicil_testkit::{Reply, Script};
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
