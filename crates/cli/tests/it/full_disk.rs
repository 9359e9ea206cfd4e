//! A full disk and a read-only disk.
//!
//! Each test runs itself again in a mount namespace where the temporary directory is a small file system,
//! which it can fill. It is skipped, with the reason, on machines that do not allow this.

use std::{
    env, fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
};

use codicil_protocol::{
    ConfigValueWrite, Thread, ThreadList, ThreadNameSet, ThreadResume, ThreadStart, TurnCompleted, TurnStart,
    TurnStarted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script, TestTransport, skipped};
use serde_json::{Value, json};

/// Set to the small disk in the inner run.
const SMALL: &str = "CODICIL_SMALL_DISK";

/// Length of a text that does not fit into the last page of a file, but into the reserve of the server.
const LONG: usize = 20_000;

/// Returns the small disk in the inner run. In the outer run, starts the inner one, which must succeed.
fn small_disk(test: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(SMALL) {
        return Some(path.into());
    }
    let root = tempfile::tempdir_in("/var/tmp").unwrap();
    let mount = "mount -t tmpfs -o size=16m codicil-small \"$CODICIL_SMALL_DISK\"";
    let unshare = |line: &str| {
        let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", line, "sh"]).env(SMALL, root.path()).env("TMPDIR", root.path());
        command
    };
    let possible = unshare(mount).output();
    match possible {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            skipped(format!("no small disk can be mounted here: {reason}"));
            return None;
        }
        Err(error) => {
            skipped(format!("there is no `unshare` here: {error}"));
            return None;
        }
    }
    let inside = format!("{mount} && exec \"$@\"");
    let name = format!("full_disk::{test}");
    let output = unshare(&inside)
        .arg(env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "the inner run failed:\n{printed}");
    None
}

/// Fills the disk.
fn fill(disk: &Path) {
    let mut file = fs::File::create(disk.join("filler")).unwrap();
    let mut block = vec![b'x'; 1 << 20];
    loop {
        match file.write(&block) {
            Ok(0) => panic!("a full disk is an error"),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull && block.len() > 1 => {
                block.truncate(block.len() / 2);
            }
            Err(error) => return assert_eq!(error.kind(), ErrorKind::StorageFull),
        }
    }
}

fn free(disk: &Path) {
    fs::remove_file(disk.join("filler")).unwrap();
}

fn turn(thread: &Thread, text: &str) -> Value {
    json!({ "threadId": thread.id, "input": [{ "type": "text", "text": text }] })
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Checks that every line of a thread's file is complete.
fn check_lines(thread: &Thread) {
    let text = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    assert!(text.ends_with('\n'), "the last line is torn");
    for line in text.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[tokio::test]
async fn a_full_disk_fails_only_requests_that_write() {
    let Some(disk) = small_disk("a_full_disk_fails_only_requests_that_write") else { return };
    let long = "word ".repeat(LONG / 5);
    let script = Script::new()
        .say("first")
        .then()
        .say("other")
        .then()
        .gate("full")
        .say_deltas([long.clone()])
        .then()
        .repeat(Reply::new().say("fine again"));
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    assert!(app.home().starts_with(&disk), "the home is on the small disk");
    let victim = app.start_thread().await;
    let other = app.start_thread().await;
    app.run_turn(&victim, "one").await;
    app.run_turn(&other, "two").await;

    // In the middle of a turn.
    let running = app.start_turn(&victim, "three").await;
    app.until::<TurnStarted>().await;
    fill(&disk);
    app.model().release("full");
    let ended = app.until_where::<TurnCompleted>(|ended| ended.turn.id == running.id).await.turn;
    assert_eq!(ended.status, TurnStatus::Failed);
    let message = ended.error.unwrap().message;
    assert!(message.contains("No space left on device"), "{message}");
    let rest = app.rest().await;
    assert!(!rest.contains("turn/completed"), "a turn ends once: {rest}");

    // A new turn is rejected, and reads work.
    let refused = app.try_call::<TurnStart>(from(turn(&other, &long))).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.contains("No space left")),
        (-32603, true),
        "{}",
        refused.message
    );
    assert_eq!(app.read(&other).await.turns.len(), 1);
    assert_eq!(app.read(&victim).await.turns.len(), 2);
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 2);

    // Requests without writes work. Others fail with the reason and change nothing.
    let ephemeral = app.start_thread_with(from(json!({ "ephemeral": true }))).await;
    assert_eq!(app.run_turn(&ephemeral, &long).await.status, TurnStatus::Completed);
    let started = app.try_call::<ThreadStart>(from(json!({ "baseInstructions": long }))).await;
    let started = started.map(|_| ()).unwrap_err();
    assert_eq!(
        (started.code, started.message.contains("No space left")),
        (-32603, true),
        "{}",
        started.message
    );
    let config = fs::read_to_string(app.home().join("config.toml")).unwrap();
    let write = json!({ "keyPath": "developer_instructions", "value": long, "mergeStrategy": "replace" });
    let refused = app.try_call::<ConfigValueWrite>(from(write)).await.map(|_| ()).unwrap_err();
    assert!(refused.message.contains("No space left"), "{}", refused.message);
    assert_eq!(fs::read_to_string(app.home().join("config.toml")).unwrap(), config);
    // The index may or may not fit on the disk. The answer must be correct.
    let name = json!({ "threadId": other.id, "name": "n".repeat(900) });
    let named = app.try_call::<ThreadNameSet>(from(name)).await.is_ok();
    app.rest().await;

    // With free space, everything continues.
    free(&disk);
    for thread in [&victim, &other] {
        assert_eq!(app.run_turn(thread, "again").await.status, TurnStatus::Completed);
    }
    app.rest().await;
    app.restart().await;
    for (thread, turns) in [(&victim, 3), (&other, 2)] {
        let stored = app.resume(thread).await;
        assert_eq!(stored.turns.len(), turns);
        assert_eq!(app.run_turn(thread, "and on").await.status, TurnStatus::Completed);
        check_lines(thread);
    }
    assert_eq!(app.read(&other).await.name.is_some(), named);
    assert_eq!(app.read(&victim).await.turns[1].status, TurnStatus::Failed);
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 2);
    app.ignore_rest();
}

/// Returns an app whose only thread has one turn.
async fn with_one_turn() -> (App, Thread) {
    let script = Script::new().repeat(Reply::new().say("Hi"));
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.rest().await;
    (app, thread)
}

#[tokio::test]
async fn a_disk_that_was_full_at_the_start_can_be_used_later() {
    let Some(disk) = small_disk("a_disk_that_was_full_at_the_start_can_be_used_later") else { return };
    let (mut app, thread) = with_one_turn().await;
    fill(&disk);
    app.restart().await;
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 1);
    app.resume(&thread).await;
    free(&disk);
    assert_eq!(app.run_turn(&thread, "two").await.status, TurnStatus::Completed);
    app.ignore_rest();
}

#[tokio::test]
async fn a_read_only_home_can_be_read() {
    let Some(disk) = small_disk("a_read_only_home_can_be_read") else { return };
    let (mut app, thread) = with_one_turn().await;
    // The server keeps its index open, so it has to be stopped.
    app.process().kill();
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&disk).output();
    let remounted = remounted.unwrap();
    if !remounted.status.success() {
        app.ignore_rest();
        return skipped(format!("{remounted:?}"));
    }
    app.revive().await;
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 1);
    let refused = app.try_call::<ThreadStart>(Default::default()).await.map(|_| ()).unwrap_err();
    assert!(refused.message.contains("Read-only file system"), "{}", refused.message);
    // A thread that cannot be written cannot be resumed.
    let resume = from(json!({ "threadId": thread.id }));
    let refused = app.try_call::<ThreadResume>(resume).await.map(|_| ()).unwrap_err();
    assert_eq!((refused.code, refused.message.contains("Read-only")), (-32603, true), "{}", refused.message);

    let ephemeral = app.start_thread_with(from(json!({ "ephemeral": true }))).await;
    assert_eq!(app.run_turn(&ephemeral, "hello").await.status, TurnStatus::Completed);
    app.ignore_rest();
}
