//! `codicil import`: threads of the reference are listed, read and continued.
//!
//! `tests/codex_home` was written by codex-cli 0.118.0 with a scripted model. Its own long texts have been
//! removed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use codicil_protocol::{
    SessionSource, ThreadId, ThreadItem, ThreadList, ThreadListParams, ThreadRead, ThreadReadParams,
    ThreadResume, ThreadResumeParams, ThreadSourceKind, TurnStatus,
};
use codicil_testkit::{App, Script, TestTransport};
use serde_json::Value;

use crate::text;

/// A thread with every kind of call, and their events.
const EXTENDED: &str = "01a1e24a-7306-7ea0-814c-5e62508c090b";
const FORK: &str = "01a1e24a-7472-7531-8ed4-6654e42128ef";
const NAMED: &str = "01a1e24a-7999-7f33-8091-c721262c3c69";
const ARCHIVED: &str = "01a1e24a-65cb-7043-8a6c-b03df0036b36";
const COMMAND: &str = "01a1e24a-5436-7531-ba3f-407e971a39a4";
const PATCH: &str = "01a1e24a-5f6f-7503-982f-299d11ece12d";
const ROLLED_BACK: &str = "01a1e24a-837b-7972-9309-58747128f102";
const REVIEW: &str = "01a1e24a-6637-7012-87be-a82d14e9de11";
const COMPACTED: &str = "01a1e24a-6c03-7881-a3c3-b62af93063a6";
const INTERRUPTED: &str = "01a1e24a-9e2b-75c3-b081-a515d565a571";
const USER_COMMANDS: &str = "01a1e24a-8acb-7711-80c1-bc711764ddc6";
const FILES: u64 = 23;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/codex_home")
}

fn import(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("import").args(arguments).env("CODICIL_HOME", home).env_remove("RUST_LOG");
    command.env_remove("CODEX_HOME").stdin(Stdio::null()).output().unwrap()
}

fn report(home: &Path, from: &Path) -> Value {
    let output = import(home, &[from.to_str().unwrap(), "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Returns every file below a directory, with its content and modification time.
fn everything(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything(&entry.path()));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            found.insert(entry.path(), (fs::read(entry.path()).unwrap(), changed));
        }
    }
    found
}

fn copy_of_fixture(into: &Path) -> PathBuf {
    let copy = into.join("codex");
    for (path, (bytes, _)) in everything(&fixture()) {
        let to = copy.join(path.strip_prefix(fixture()).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(to, bytes).unwrap();
    }
    copy
}

fn rollout(home: &Path, id: &str) -> PathBuf {
    let found = everything(home).into_keys().find(|path| path.to_string_lossy().contains(id));
    found.unwrap_or_else(|| panic!("no file of {id}"))
}

async fn app() -> App {
    App::builder().script(Script::new()).over(TestTransport::Stdio).start().await
}

async fn read(app: &mut App, id: &str) -> codicil_protocol::Thread {
    let params = ThreadReadParams { thread_id: ThreadId::from(id), include_turns: true };
    app.call::<ThreadRead>(params).await.thread
}

/// Returns the kinds of the items of each turn.
fn kinds(thread: &codicil_protocol::Thread) -> Vec<Vec<String>> {
    let kind = |item: &ThreadItem| serde_json::to_value(item).unwrap()["type"].as_str().unwrap().to_owned();
    thread.turns.iter().map(|turn| turn.items.iter().map(kind).collect()).collect()
}

#[tokio::test]
async fn threads_are_listed_and_read() {
    let mut app = app().await;
    let before = everything(&fixture());
    let report = report(app.home(), &fixture());
    assert_eq!((&report["imported"], &report["failed"]), (&FILES.into(), &0.into()), "{report}");
    assert_eq!(report["skippedLines"], 0);
    assert_eq!(everything(&fixture()), before, "the source was changed");

    let kinds_of_source = vec![ThreadSourceKind::Vscode, ThreadSourceKind::SubAgent];
    let query =
        ThreadListParams { source_kinds: Some(kinds_of_source), limit: Some(100), ..Default::default() };
    let listed = app.call::<ThreadList>(query).await.data;
    let named = listed.iter().find(|thread| &*thread.id == NAMED).unwrap();
    assert_eq!(named.name.as_deref(), Some("My thread"));
    assert_eq!((named.cli_version.as_str(), named.cwd.as_str()), ("0.118.0", "/work/ws"));
    assert_eq!(named.source, SessionSource::Vscode);
    assert_eq!(named.created_at, 1_794_797_894);
    assert!(!listed.iter().any(|thread| &*thread.id == ARCHIVED));
    let archived = ThreadListParams { archived: Some(true), ..Default::default() };
    let archived = app.call::<ThreadList>(archived).await.data;
    assert_eq!(archived.iter().map(|thread| &*thread.id).collect::<Vec<_>>(), [ARCHIVED]);

    let extended = read(&mut app, EXTENDED).await;
    let expected = [
        "userMessage",
        "commandExecution",
        "fileChange",
        "mcpToolCall",
        "dynamicToolCall",
        "webSearch",
        "agentMessage",
    ];
    assert_eq!(kinds(&extended), [expected.map(str::to_owned).to_vec()]);
    assert_eq!(extended.turns[0].status, TurnStatus::Completed);
    assert_eq!(&*extended.turns[0].id, "01a1e24a-7367-7ea2-9527-6a13891c7552");
    let fork = read(&mut app, FORK).await;
    assert_eq!(kinds(&fork), vec![vec!["userMessage".to_owned(), "agentMessage".to_owned()]; 2]);
    app.ignore_rest();
}

#[tokio::test]
async fn items_without_events_come_from_the_history() {
    let mut app = app().await;
    report(app.home(), &fixture());
    let thread = read(&mut app, COMMAND).await;
    let ThreadItem::CommandExecution { command, aggregated_output, exit_code, .. } =
        &thread.turns[0].items[1]
    else {
        panic!("{thread:?}");
    };
    assert_eq!(command, "bash -lc 'echo one; sleep 0.2; echo two >&2; exit 4'");
    assert_eq!((aggregated_output.as_deref(), *exit_code), (Some("one\ntwo\n"), Some(4)));

    let thread = read(&mut app, PATCH).await;
    let ThreadItem::FileChange { changes, .. } = &thread.turns[0].items[1] else { panic!("{thread:?}") };
    let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["/work/ws/new.txt", "/work/ws/old.txt", "/work/ws/gone.txt"]);

    let thread = read(&mut app, USER_COMMANDS).await;
    let ThreadItem::CommandExecution { exit_code, .. } = &thread.turns[1].items[0] else {
        panic!("{thread:?}")
    };
    assert_eq!(*exit_code, Some(3));

    let thread = read(&mut app, REVIEW).await;
    let review = ["enteredReviewMode", "userMessage", "exitedReviewMode", "agentMessage"];
    assert_eq!(kinds(&thread)[0], review.map(str::to_owned));
    let thread = read(&mut app, INTERRUPTED).await;
    assert_eq!(thread.turns[0].status, TurnStatus::Interrupted);
    let thread = read(&mut app, ROLLED_BACK).await;
    assert_eq!(thread.turns.len(), 1, "{thread:?}");
    app.ignore_rest();
}

#[tokio::test]
async fn an_imported_thread_can_be_continued() {
    let script = Script::new().say("Still here").say("Me too");
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    report(app.home(), &fixture());
    for (id, text) in [(EXTENDED, "call_1_0"), (COMPACTED, "SUMMARY OF IT")] {
        let params = ThreadResumeParams {
            cwd: Some(app.workspace().display().to_string()),
            ..codicil_client::resume(&ThreadId::from(id))
        };
        let thread = app.call::<ThreadResume>(params).await.thread;
        let before = thread.turns.len();
        app.run_turn(&thread, "And now?").await;
        let request = app.model().requests().pop().unwrap();
        let input = Value::from(request.input().to_vec()).to_string();
        assert!(input.contains(text) && input.contains("And now?"), "{input}");
        let after = app.restart().await.read(&thread).await;
        assert_eq!(after.turns.len(), before + 1);
    }
    // Threads that were continued here are not changed by another import.
    let again = report(app.home(), &fixture());
    assert_eq!((&again["kept"], &again["unchanged"]), (&2.into(), &(FILES - 2).into()), "{again}");
    app.ignore_rest();
}

#[test]
fn a_second_import_adds_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let source = copy_of_fixture(folder.path());
    let home = folder.path().join("home");
    let file = rollout(&source, FORK);
    let whole = fs::read_to_string(&file).unwrap();
    // As if codex were still writing it, in the middle of a line.
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(report(&home, &source)["imported"], FILES);
    assert_eq!(report(&home, &source)["unchanged"], FILES);

    fs::write(&file, &whole).unwrap();
    let names = source.join("session_index.jsonl");
    let line = format!("{{\"id\":\"{EXTENDED}\",\"thread_name\":\"Now named\"}}\n");
    fs::write(&names, fs::read_to_string(&names).unwrap() + &line).unwrap();
    let grown = report(&home, &source);
    assert_eq!((&grown["updated"], &grown["unchanged"]), (&2.into(), &(FILES - 2).into()), "{grown}");
    assert_eq!(report(&home, &source)["unchanged"], FILES);

    // Two imports and one result in the same thread.
    let other = folder.path().join("other");
    report(&other, &source);
    let records = |home: &Path| -> Vec<Value> {
        let file = fs::read_to_string(rollout(home, FORK)).unwrap();
        let lines = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut records: Vec<_> = lines.filter(|line| line["type"] != "extra").collect();
        records.iter_mut().for_each(|record| drop(record.as_object_mut().unwrap().remove("ordinal")));
        records
    };
    assert_eq!(records(&home), records(&other));
}

#[test]
fn an_invalid_file_does_not_stop_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let source = copy_of_fixture(folder.path());
    let home = folder.path().join("home");
    let day = source.join("sessions/2026/11/16");
    fs::write(day.join("rollout-2026-11-16T00-00-00-broken.jsonl"), "not a thread\n").unwrap();
    fs::write(day.join("rollout-2026-11-16T00-00-01-empty.jsonl"), "").unwrap();
    let torn = rollout(&source, COMMAND);
    let lines = fs::read_to_string(&torn).unwrap().replacen("\n{", "\n}{", 1);
    fs::write(&torn, lines).unwrap();

    let output = import(&home, &[source.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["imported"], &report["failed"]), (&FILES.into(), &2.into()), "{report}");
    assert_eq!(report["skippedLines"], 1);
    assert!(report["errors"][0]["file"].as_str().unwrap().ends_with("broken.jsonl"), "{report}");
    assert!(text(&output.stderr).contains("empty.jsonl: it is empty"), "{output:?}");
}

#[test]
fn a_rewritten_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = copy_of_fixture(folder.path());
    let home = folder.path().join("home");
    report(&home, &source);
    let file = rollout(&source, COMMAND);
    let changed = fs::read_to_string(&file).unwrap().replace("echo one", "echo ONE") + "{}\n";
    fs::write(&file, changed).unwrap();
    let again = report(&home, &source);
    assert_eq!((&again["failed"], &again["unchanged"]), (&1.into(), &(FILES - 1).into()), "{again}");
    assert!(again["errors"][0]["error"].as_str().unwrap().contains("has not just grown"), "{again}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let output = import(home.path(), &[fixture().to_str().unwrap(), "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with("Would import from ") && printed.contains(&format!("{FILES}  new")),
        "{printed}"
    );
    assert!(everything(home.path()).is_empty());
}

#[test]
fn source_and_destination_must_differ() {
    let folder = tempfile::tempdir().unwrap();
    let source = copy_of_fixture(folder.path());
    let output = import(&source, &[source.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("set CODICIL_HOME to another directory"), "{output:?}");
    let nothing = import(&folder.path().join("home"), &["/nonexistent"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing.stderr).contains("cannot read /nonexistent"), "{nothing:?}");
}
