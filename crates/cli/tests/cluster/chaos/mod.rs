//! Three servers over one database while servers and the database are killed, suspended and restarted at random, and clients
//! go on with their threads.
//!
//! What must hold: nothing that a client was told is lost, each ordinal has one record, every turn ends, a client with a
//! cursor sees every stored message once, and no command is run twice.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `CODICIL_CHAOS_SECONDS` | for how long things go wrong | 20 |
//! | `CODICIL_CHAOS_THREADS` | the number of threads | 12 |
//! | `CODICIL_CHAOS_SEED` | what goes wrong, and when | 1 |
//!
//! `just chaos` runs it for five minutes with 200 threads.

mod connection;
mod faults;
mod follower;
mod node;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use codicil_testkit::{ModelServer, RecordedRequest, Reply, Script};
use fastrand::Rng;
use serde_json::json;
use tokio::{task::JoinSet, time::Instant};

use self::{
    faults::FaultPlan,
    follower::{FollowedThread, ThreadFollower},
    node::ChaosNodes,
};
use crate::{
    codicil,
    database::{TestDatabase, TestPostgres},
};

/// The extent of a run.
#[derive(Clone, Copy, Debug)]
struct ChaosExtent {
    time: Duration,
    threads: usize,
    seed: u64,
}

impl ChaosExtent {
    /// Returns the time that threads have to come to rest once nothing goes wrong any more. Each loads its thread again, and
    /// a turn of a debug build takes its time on a machine with other work.
    fn rest_time(&self) -> Duration {
        Duration::from_secs(90 + self.threads as u64)
    }

    fn from_env() -> Self {
        let number = |name: &str, default: u64| match env::var(name) {
            Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
            Err(_) => default,
        };
        Self {
            time: Duration::from_secs(number("CODICIL_CHAOS_SECONDS", 20)),
            threads: usize::try_from(number("CODICIL_CHAOS_THREADS", 12)).unwrap(),
            seed: number("CODICIL_CHAOS_SEED", 1),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_whatever_fails() {
    let Some(postgres) = TestPostgres::start() else { return };
    let postgres = Arc::new(postgres);
    let database = TestDatabase::create_on(postgres.clone()).await;
    let extent = ChaosExtent::from_env();
    eprintln!("chaos: {extent:?}");
    let mut rng = Rng::with_seed(extent.seed);
    let workspace = tempfile::tempdir().unwrap();
    let workspace_path = workspace.path().canonicalize().unwrap();
    let model =
        ModelServer::start(Script::new().respond_with(answers(rng.fork(), workspace_path.clone()))).await;
    let resumes = rng.bool();
    let nodes = Arc::new(ChaosNodes::start(&database, &model.base_url(), &workspace_path, resumes).await);

    let until = Instant::now() + extent.time;
    let rest_time = extent.rest_time();
    let mut followers = JoinSet::new();
    for number in 0..extent.threads {
        let follower = ThreadFollower::new(number, nodes.clone(), &workspace_path, rng.fork());
        followers.spawn(async move {
            let ended = tokio::time::timeout_at(until + rest_time, follower.run(until)).await;
            ended.map_err(|_| number)
        });
    }
    let faults = FaultPlan::new(rng.fork(), nodes.clone(), postgres, &database).run(until).await;
    eprintln!("chaos: {faults}");

    let mut threads = Vec::new();
    while let Some(ended) = followers.join_next().await {
        match ended.unwrap_or_else(|failed| panic!("{failed}\n{}", nodes.logs())) {
            Ok(thread) => threads.push(thread),
            Err(number) => panic!("thread {number} has not come to rest:\n{}", nodes.logs()),
        }
    }
    report(&threads);
    nodes.stop().await;
    database.check().await;
    check_stored(&database, &workspace_path.join("home"));
    check_effects(&workspace_path);
}

/// Returns how the model answers: in pieces that take a while, sometimes with a command.
fn answers(mut rng: Rng, workspace: PathBuf) -> impl FnMut(&RecordedRequest) -> Reply + Send + 'static {
    let mut calls = 0_u64;
    move |request| {
        let last = request.input().last().cloned().unwrap_or_default();
        if last["type"] == "function_call_output" || rng.u8(..) > 80 {
            let pause = Duration::from_millis(rng.u64(5..120));
            let words = (0..rng.usize(2..12)).map(|number| format!("word {number} "));
            return Reply::new().pace(pause).say_deltas(words);
        }
        calls += 1;
        let command = format!("echo {calls} >> {}/effects", workspace.display());
        Reply::new().say("Let me see").call("exec_command", json!({ "cmd": command }))
    }
}

fn report(threads: &[FollowedThread]) {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for end in threads.iter().flat_map(|thread| &thread.ends) {
        *ends.entry(end).or_default() += 1;
    }
    let subscriptions: usize = threads.iter().map(|thread| thread.subscriptions).sum();
    eprintln!("chaos: {} threads, turns {ends:?}, {subscriptions} subscriptions", threads.len());
}

/// Checks everything that is stored with the program for it.
fn check_stored(database: &TestDatabase, home: &Path) {
    let output = codicil(home, &["store", "check", "--store", &database.address()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("chaos: {}", text.lines().rev().nth(1).unwrap_or_default());
}

/// Checks that no command has run twice: each call of the model writes a number of its own.
fn check_effects(workspace: &Path) {
    let written = fs::read_to_string(workspace.join("effects")).unwrap_or_default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in written.lines() {
        *counts.entry(line).or_default() += 1;
    }
    let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "commands that ran twice: {doubled:?}");
    eprintln!("chaos: {} commands, each once", counts.len());
}
