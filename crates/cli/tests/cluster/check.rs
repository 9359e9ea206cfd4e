//! `codicil store check` of a database.

use codicil_protocol::TurnStatus;
use codicil_testkit::Script;
use serde_json::{Value, json};

use crate::{codicil, database::TestDatabase, server, stdout};

/// A database with two threads, of which one has a large text.
async fn filled() -> Option<TestDatabase> {
    let database = TestDatabase::create().await?;
    let script = Script::new().say("done").then().say("word ".repeat(20_000));
    let mut app = server(&database, script).start().await;
    for text in ["one", "two"] {
        let thread = app.start_thread().await;
        assert_eq!(app.run_turn(&thread, text).await.status, TurnStatus::Completed);
    }
    app.rest().await;
    app.process().terminate();
    app.process().wait().await;
    app.ignore_rest();
    Some(database)
}

/// Checks the database. Returns the exit code and the report.
fn check(database: &TestDatabase) -> (Option<i32>, Value) {
    let home = tempfile::tempdir().unwrap();
    let output = codicil(home.path(), &["store", "check", "--json", "--store", &database.address()]);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), report)
}

/// Damages the database within a statement and checks what is found.
async fn check_damage(database: &TestDatabase, damage: &str, repair: &str, kind: &str) {
    database.raw().await.run(damage).await;
    let (code, report) = check(database);
    let kinds: Vec<_> = report["findings"].as_array().unwrap().iter().map(|found| &found["kind"]).collect();
    assert_eq!((code, &report["ok"]), (Some(1), &json!(false)), "{report}");
    assert!(kinds.contains(&&json!(kind)), "{kind}: {report}");
    database.raw().await.run(repair).await;
    assert_eq!(check(database).0, Some(0), "{repair}");
}

#[tokio::test]
async fn a_sound_database_has_no_findings() {
    let Some(database) = filled().await else { return };
    let (code, report) = check(&database);
    assert_eq!((code, &report["ok"], &report["findings"]), (Some(0), &json!(true), &json!([])), "{report}");
    assert_eq!((&report["threads"], &report["indexRows"]), (&json!(2), &json!(2)), "{report}");
    assert!(report["blobs"].as_u64().unwrap() > 0 && report["records"].as_u64().unwrap() > 10, "{report}");
    let home = tempfile::tempdir().unwrap();
    let text = stdout(&codicil(home.path(), &["store", "check", "--store", &database.address()]));
    assert!(text.contains("2 list entries read\nEverything is sound.\n"), "{text}");
    // The check leaves no server behind.
    let nodes = stdout(&codicil(home.path(), &["nodes", "--store", &database.address()]));
    assert_eq!(nodes, "No server is registered.\n");
}

#[tokio::test]
async fn damage_is_found() {
    let Some(database) = filled().await else { return };
    let raw = database.raw().await;
    raw.run(
        "create table log as select * from codicil_log; create table lease as select * from codicil_lease",
    )
    .await;
    raw.run(
        "create table entry as select * from codicil_thread; create table blob as select * from codicil_blob",
    )
    .await;
    let log = "delete from codicil_log; insert into codicil_log select * from log";
    let last = "first = (select max(first) from codicil_log g where g.thread = codicil_log.thread)";
    let second =
        "first = (select min(first) from codicil_log g where g.thread = codicil_log.thread and g.first > 0)";
    check_damage(&database, &format!("delete from codicil_log where {last}"), log, "wrongLease").await;
    check_damage(&database, &format!("delete from codicil_log where {second}"), log, "missingRecords").await;
    check_damage(
        &database,
        &format!("update codicil_log set epoch = 0 where {last}"),
        log,
        "decreasingEpoch",
    )
    .await;
    let unreadable = format!(
        "update codicil_log set lines = convert_to(repeat(E'x\n', (next - first)::integer), 'UTF8') where {last}"
    );
    check_damage(&database, &unreadable, log, "unreadableLine").await;
    let lease = "delete from codicil_lease; insert into codicil_lease select * from lease";
    check_damage(&database, "delete from codicil_lease", lease, "orphanedRow").await;
    let entry = "delete from codicil_thread; insert into codicil_thread select * from entry";
    check_damage(&database, "update codicil_thread set name = 'other'", entry, "indexRow").await;
    let blob = "delete from codicil_blob; insert into codicil_blob select * from blob";
    check_damage(&database, "delete from codicil_blob", blob, "missingBlob").await;
    check_damage(&database, "update codicil_blob set body = 'other'", blob, "damagedBlob").await;
}
