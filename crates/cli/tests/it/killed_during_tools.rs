//! A server is killed at random instants while the model streams, runs commands and changes files, on two
//! threads at once.
//!
//! A kill comes after a random number of messages and then a random delay, to cover every phase.
//! `CODICIL_KILLS` sets the number of kills (24), `CODICIL_SEED` repeats a run; the seed is printed.

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use codicil_protocol::{PatchApplyStatus, ServerNotification, Thread, ThreadItem, TurnStatus};
use codicil_testkit::{App, RecordedRequest, Reply, Script, TestTransport};
use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::killed::ReportedEvents;

/// About the number of messages of two turns.
const MESSAGES: usize = 56;

impl ReportedEvents {
    /// Checks that everything reported is stored in one of these threads as it was reported.
    fn check(&self, stored: &[Thread], round: usize) {
        let turns: BTreeMap<_, _> =
            stored.iter().flat_map(|thread| &thread.turns).map(|turn| (&turn.id, turn)).collect();
        let items: BTreeMap<_, _> =
            turns.values().flat_map(|turn| &turn.items).filter_map(|item| Some((item.id()?, item))).collect();
        for (id, item) in &self.items {
            assert_eq!(items.get(id), Some(&item), "round {round}");
        }
        for (id, status) in &self.turns {
            assert_eq!(turns.get(id).map(|turn| &turn.status), Some(status), "round {round}: {id}");
        }
    }

    /// Checks that reported file changes are on the disk.
    fn check_files(&self) {
        for item in self.items.values() {
            let ThreadItem::FileChange { changes, status: PatchApplyStatus::Completed, .. } = item else {
                continue;
            };
            for change in changes {
                assert!(Path::new(&change.path).exists(), "{} was reported and does not exist", change.path);
            }
        }
    }

    fn count(&self, is: impl Fn(&ThreadItem) -> bool) -> usize {
        self.items.values().filter(|item| is(item)).count()
    }
}

pub fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Returns the seed of a run.
pub fn seed() -> u64 {
    number("CODICIL_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()))
    })
}

/// Answers with a message and a command, then a patch, then a last message.
fn answer(request: &RecordedRequest) -> Reply {
    check_history(request.input());
    let key = request.number();
    let last = request.input().iter().rev().find(|item| item["type"] == "function_call_output");
    let is_new = request.input().last().is_some_and(|item| item["type"] == "message");
    let step = if is_new { None } else { last.and_then(|item| item["call_id"].as_str()) };
    match step {
        None => {
            let command = json!({ "cmd": format!("echo {key} > command-{key}; echo done {key}") });
            Reply::new()
                .say("Let me ")
                .say("see")
                .call("exec_command", command)
                .call_id(format!("command-{key}"))
        }
        Some(id) if id.starts_with("command") => {
            let patch = format!(
                "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: patch-{key}\n+{key}\n*** End Patch\nEOF\n"
            );
            Reply::new().call("exec_command", json!({ "cmd": patch })).call_id(format!("patch-{key}"))
        }
        Some(_) => Reply::new().say("That is all"),
    }
}

/// Checks the history as a provider does: every call has an output, and every output a call.
fn check_history(input: &[Value]) {
    let mut open = Vec::new();
    for item in input {
        let id = item["call_id"].as_str();
        match item["type"].as_str() {
            Some("function_call") => open.push(id.expect("a call has an id")),
            Some("function_call_output") => {
                let at = open.iter().position(|call| Some(*call) == id);
                open.remove(at.unwrap_or_else(|| panic!("an output without its call: {item}")));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "calls without an output: {open:?}");
}

/// Reads until the time of the kill, or until both turns have ended.
async fn read_until_kill(app: &mut App, reported: &mut ReportedEvents, random: &mut Rng) {
    let mut running = 2;
    for _ in 0..random.usize(0..MESSAGES) {
        let notification = app.next_notification().await.expect("the server runs");
        running -= usize::from(matches!(notification, ServerNotification::TurnCompleted(_)));
        reported.add(notification);
        if running == 0 {
            break;
        }
    }
    let due = Instant::now() + Duration::from_micros(random.u64(0..15_000));
    while let Ok(Some(notification)) = timeout_at(due, app.next_notification()).await {
        reported.add(notification);
    }
}

/// Reads until the running turn of a thread has ended.
async fn finish_turn(app: &mut App, thread: &Thread, reported: &mut ReportedEvents) {
    loop {
        let notification = app.next_notification().await.expect("the server runs");
        let is_end =
            matches!(&notification, ServerNotification::TurnCompleted(ended) if ended.thread_id == thread.id);
        reported.add(notification);
        if is_end {
            return;
        }
    }
}

#[tokio::test]
async fn nothing_reported_is_lost_by_a_kill_during_commands_and_patches() {
    let kills = number("CODICIL_KILLS").unwrap_or(24);
    let seed = seed();
    println!("CODICIL_SEED={seed} CODICIL_KILLS={kills}");
    let mut random = Rng::with_seed(seed);
    let mut app = App::builder()
        .script(Script::new().respond_with(answer))
        .over(TestTransport::Stdio)
        .config("approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"")
        .start()
        .await;
    let threads = [app.start_thread().await, app.start_thread().await];
    let mut reported = ReportedEvents::default();
    for round in 0..usize::try_from(kills).unwrap() {
        for thread in &threads {
            app.start_turn(thread, &format!("question {round}")).await;
        }
        read_until_kill(&mut app, &mut reported, &mut random).await;
        app.process().kill();
        // Messages that are still in the pipe have been reported too.
        while let Some(notification) = app.next_notification().await {
            reported.add(notification);
        }
        app.revive().await;

        let mut stored = Vec::new();
        for thread in &threads {
            let resumed = app.resume(thread).await;
            // A turn whose calls have not begun continues.
            if resumed.turns.last().is_some_and(|turn| turn.status == TurnStatus::InProgress) {
                finish_turn(&mut app, thread, &mut reported).await;
            }
            stored.push(app.read(thread).await);
        }
        reported.check(&stored, round);
        for thread in &stored {
            assert_eq!(thread.turns.len(), round + 1, "an accepted turn is stored, however it ended");
        }
    }
    for thread in &threads {
        assert_eq!(app.run_turn(thread, "and now?").await.status, TurnStatus::Completed);
    }
    reported.check_files();
    let commands = reported.count(|item| matches!(item, ThreadItem::CommandExecution { .. }));
    let patches = reported.count(|item| matches!(item, ThreadItem::FileChange { .. }));
    println!("{} items reported, {commands} of them commands, {patches} patches", reported.items.len());
    assert!(commands > 0 && patches > 0, "no round saw a command or a patch");
    assert_eq!(app.model().faults(), Vec::<String>::new(), "an invalid history was sent to the model");
    let made = fs::read_dir(app.workspace()).unwrap().count();
    assert!(made >= commands + patches, "{made} files of {commands} commands and {patches} patches");
    app.ignore_rest();
}
