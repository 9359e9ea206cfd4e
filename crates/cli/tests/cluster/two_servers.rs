//! Two servers over one database.

use std::time::{Duration, Instant};

use codicil_protocol::{
    AgentMessageDelta, CodicilThreadRehome, ThreadResume, ThreadResumeParams, TurnStart, TurnStatus,
};
use codicil_testkit::{Reply, Script};
use serde_json::{from_value, json};

use crate::{
    codicil,
    database::TestDatabase,
    machine_load::{LEASE_TIME, MachineLoad, TAKEOVER_TIME},
    server, stdout,
};

#[tokio::test]
async fn a_thread_belongs_to_one_server_until_it_stops() {
    let Some(database) = TestDatabase::create().await else { return };
    let replies = || Script::new().repeat(Reply::new().say("done"));
    let named = |name: &'static str, url: &'static str| ["--node", name, "--advertise", url];
    let mut a = server(&database, replies()).arguments(named("a", "ws://a.example:1")).start().await;
    let mut b =
        server(&database, replies()).extension().arguments(named("b", "ws://b.example:1")).start().await;
    let thread = a.start_thread().await;
    a.run_turn(&thread, "hello").await;
    a.rest().await;

    let shown = stdout(&codicil(b.home(), &["nodes", "--store", &database.address()]));
    assert!(shown.contains("a  up  ws://a.example:1  1 threads") && shown.contains("b  up"), "{shown}");

    // Anyone can read; only the owner writes.
    assert_eq!(b.read(&thread).await.turns.len(), 1);
    let resume = || ThreadResumeParams::new(thread.id.clone());
    let error = b.try_call::<ThreadResume>(resume()).await.unwrap_err();
    let expected = json!({ "code": "ownedByNode", "node": "a", "url": "ws://a.example:1" });
    assert_eq!(error.data.unwrap()["codicil"], expected, "{}", error.message);

    // A planned stop gives the threads up at once.
    a.process().terminate();
    a.process().wait().await;
    let stopped = Instant::now();
    b.call::<ThreadResume>(resume()).await;
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    // The files are on the disk of a.
    let turn = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "more" }] });
    let error = b.try_call::<TurnStart>(from_value(turn).unwrap()).await.unwrap_err();
    let expected = json!({ "code": "workspaceUnavailable", "node": "a" });
    assert_eq!(error.data.unwrap()["codicil"], expected, "{}", error.message);
    let rehome = json!({ "threadId": thread.id, "cwd": b.workspace() });
    let rehomed = b.call::<CodicilThreadRehome>(from_value(rehome).unwrap()).await.thread;
    assert_eq!(rehomed.id, thread.id);
    b.call::<ThreadResume>(resume()).await;
    assert_eq!(b.run_turn(&thread, "more").await.status, TurnStatus::Completed);
    a.ignore_rest();
    b.ignore_rest();
    drop(b);
    database.check().await;
}

#[tokio::test]
async fn a_thread_of_a_killed_server_is_taken_over_in_time() {
    let Some(database) = TestDatabase::create().await else { return };
    let script = Script::new().say("begun").hang().then().say("done");
    let mut app = server(&database, script).start().await;
    let mut beside = app.another_server().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "hello").await;
    app.until::<AgentMessageDelta>().await;
    let machine = MachineLoad::measure();
    app.process().kill();
    let killed = Instant::now();
    // The other server finds the turn by itself, and ends it.
    let ended = loop {
        let read = beside.read(&thread).await;
        match read.turns.last() {
            Some(turn) if turn.status == TurnStatus::Interrupted => break killed.elapsed(),
            _ if killed.elapsed() > Duration::from_secs(60) => panic!("not taken over: {read:?}"),
            _ => tokio::task::yield_now().await,
        }
    };
    let slowdown = machine.slowdown();
    eprintln!("taken over after {ended:?}, on a machine that was slower by {slowdown:.1}");
    assert!(ended <= LEASE_TIME + TAKEOVER_TIME.mul_f64(slowdown), "{ended:?}");
    beside.resume(&thread).await;
    assert_eq!(beside.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    beside.ignore_rest();
    app.ignore_rest();
    drop(beside);
    drop(app);
    database.check().await;
}

#[tokio::test]
async fn a_planned_stop_frees_threads_at_once_also_those_with_a_turn() {
    let Some(database) = TestDatabase::create().await else { return };
    let script = Script::new().say("begun").hang().then().say("done");
    let mut app = server(&database, script).start().await;
    let mut beside = app.another_server().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "hello").await;
    app.until::<AgentMessageDelta>().await;
    let machine = MachineLoad::measure();
    app.process().terminate();
    assert!(app.process().wait().await.success());
    let stopped = Instant::now();
    // The first attempt succeeds.
    let resumed = beside.resume(&thread).await;
    let freed = stopped.elapsed();
    assert!(freed <= Duration::from_secs(1).mul_f64(machine.slowdown()), "{freed:?}");
    assert_eq!(resumed.turns.last().map(|turn| &turn.status), Some(&TurnStatus::Interrupted));
    assert_eq!(beside.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    beside.ignore_rest();
    app.ignore_rest();
    drop(beside);
    drop(app);
    database.check().await;
}
