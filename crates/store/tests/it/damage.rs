//! Torn, damaged and foreign files.

use std::{fs, io::Write};

use codicil_protocol::{ReasoningEffort, ThreadId};
use codicil_store::{LoadProblem, Record, StoreError, StoredSettings};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;

use crate::support::{Home, call, message, output, turn};

/// A file with several batches, an unfinished call and multi-byte characters.
async fn example(home: &Home) -> (ThreadId, Vec<u8>) {
    let mut log = home.thread("erste Frage äöü \u{1F600}").await;
    log.append(&turn("t2", "second \"question\"", "line\nline")).await.unwrap();
    let context = |item| Record::Context { turn_id: Some("t2".into()), item };
    log.append(&[context(call("c1")), context(output("c1", "ok")), context(message("user", "ß"))])
        .await
        .unwrap();
    (log.id().clone(), fs::read(log.path()).unwrap())
}

#[test]
fn any_beginning_of_a_file_loads_and_can_be_appended_to() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let home = Home::new();
    let (id, whole) = runtime.block_on(example(&home));
    let path = runtime.block_on(home.store.find(&id)).unwrap().path;
    let newlines: Vec<_> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let edges = newlines.iter().flat_map(|at| [*at - 1, *at, at + 1]).collect::<Vec<_>>();
    let cuts = prop_oneof![0..=whole.len(), proptest::sample::select(edges)];
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() });
    let checked = runner.run(&cuts, |cut| {
        fs::write(&path, &whole[..cut]).unwrap();
        // A record that lacks only its newline is complete.
        let records = newlines.iter().filter(|newline| **newline <= cut).count();
        runtime.block_on(check_cut(&home, &id, records as u64));
        Ok(())
    });
    checked.unwrap();
}

async fn check_cut(home: &Home, id: &ThreadId, records: u64) {
    let store = home.another_store();
    if records == 0 {
        // Clients never saw a thread whose first line is incomplete.
        assert!(matches!(store.load(id).await, Err(StoreError::NotAThread { .. })));
        assert!(matches!(store.open_log(id).await, Err(StoreError::NotAThread { .. })));
        return;
    }
    let loaded = store.load(id).await.unwrap();
    assert_eq!(loaded.thread.next_ordinal, records);
    let mut log = store.open_log(id).await.unwrap();
    log.append(&turn("after", "and on", "it goes")).await.unwrap();
    let after = store.load(id).await.unwrap();
    assert_eq!(after.thread.next_ordinal, records + 7);
    assert_eq!(after.thread.warnings.total, 0, "{:?}", after.thread.warnings);
    assert_eq!(after.thread.turns.len(), loaded.thread.turns.len() + 1);
    assert!(after.history.starts_with(&loaded.history));
    assert_eq!(after.history.len(), loaded.history.len() + 2);
}

#[tokio::test]
async fn a_torn_last_line_is_removed_by_the_next_append() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let whole = fs::read(log.path()).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(log.path()).unwrap();
    file.write_all(b"{\"v\":1,\"ordinal\":8,\"timestamp\":\"2026-11-15T20:").unwrap();
    assert_eq!(home.store.read(log.id()).await.unwrap().warnings.list[0].problem, LoadProblem::Unreadable);
    // Both the log that wrote the file and a new log detect this.
    log.append(&turn("t2", "two", "done")).await.unwrap();
    assert!(fs::read(log.path()).unwrap().starts_with(&whole));
    let thread = home.store.read(log.id()).await.unwrap();
    assert_eq!((thread.turns.len(), thread.warnings.total, thread.next_ordinal), (2, 0, 15));
}

#[tokio::test]
async fn garbage_at_the_end_is_removed_on_opening() {
    for garbage in ["{\"v\":1}\n", "\0\0\0\0\0\0\0\0\n\0\0", "half a line\nand another", "\n\n"] {
        let home = Home::new();
        let log = home.thread("one").await;
        let whole = fs::read(log.path()).unwrap();
        fs::write(log.path(), [whole.as_slice(), garbage.as_bytes()].concat()).unwrap();
        home.another_store().open_log(log.id()).await.unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), whole, "{garbage:?}");
    }
}

#[tokio::test]
async fn a_long_last_line_is_found_whole() {
    let home = Home::new();
    let mut log = home.begin().await;
    // Many strings, each too short for a blob.
    let parts: Vec<_> = (0..40).map(|_| message("user", &"x".repeat(30_000))).collect();
    log.append(&[Record::Compaction { turn_id: "t".into(), replacement: parts.clone() }]).await.unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(log.path()).unwrap();
    file.write_all(&b"torn ".repeat(100_000)).unwrap();
    let mut again = home.another_store().open_log(log.id()).await.unwrap();
    again.append(&[Record::Name { name: "n".to_owned() }]).await.unwrap();
    let loaded = home.store.load(log.id()).await.unwrap();
    assert_eq!((loaded.thread.next_ordinal, loaded.thread.warnings.total), (3, 0));
    assert_eq!(loaded.history, parts);
}

#[tokio::test]
async fn only_the_damaged_line_is_lost() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&turn("t2", "two", "done")).await.unwrap();
    let text = fs::read_to_string(log.path()).unwrap();
    let mut lines: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
    lines[3] = b"\xff\xfe not even text".to_vec(); // context of the first user message
    let middle = lines[5].len() / 2;
    lines[5][middle] = b'"'; // the first answer, torn inside
    fs::write(log.path(), [lines.join(&b'\n'), b"\n".to_vec()].concat()).unwrap();

    let loaded = home.store.load(log.id()).await.unwrap();
    let problems: Vec<_> =
        loaded.thread.warnings.list.iter().map(|warning| (warning.line, warning.problem)).collect();
    assert_eq!(problems, [(4, LoadProblem::Unreadable), (6, LoadProblem::Unreadable)]);
    assert_eq!(loaded.thread.warnings.total, 2);
    assert_eq!(loaded.thread.turns.len(), 2);
    assert_eq!(loaded.thread.turns[0].items.len(), 1);
    assert_eq!(loaded.history.len(), 3);
    let mut log = home.store.open_log_after(&loaded.thread).await.unwrap();
    log.append(&turn("t3", "three", "done")).await.unwrap();
    assert_eq!(home.store.read(log.id()).await.unwrap().turns.len(), 3);
}

#[tokio::test]
async fn records_of_newer_versions_are_skipped_and_kept() {
    let home = Home::new();
    let log = home.thread("one").await;
    let future = "{\"v\":2,\"ordinal\":8,\"timestamp\":\"2031-01-01T00:00:00.000Z\",\"type\":\"hologram\",\"x\":[1]}\n";
    let text = fs::read_to_string(log.path()).unwrap() + future;
    fs::write(log.path(), &text).unwrap();
    let mut again = home.another_store().open_log(log.id()).await.unwrap();
    again.append(&turn("t2", "two", "done")).await.unwrap();
    let thread = home.store.read(log.id()).await.unwrap();
    assert_eq!((thread.turns.len(), thread.next_ordinal), (2, 16));
    assert_eq!(thread.warnings.list[0].problem, LoadProblem::UnknownKind);
    assert!(fs::read_to_string(log.path()).unwrap().contains(future));
}

#[tokio::test]
async fn repeated_ordinals_are_tolerated_and_reported() {
    let home = Home::new();
    let log = home.thread("one").await;
    let text = fs::read_to_string(log.path()).unwrap();
    let again: String = text.lines().skip(1).map(|line| line.replace("turn-1", "copied") + "\n").collect();
    fs::write(log.path(), text + &again).unwrap();
    let thread = home.store.read(log.id()).await.unwrap();
    assert_eq!(thread.turns.len(), 2);
    assert!(thread.warnings.list.iter().all(|warning| warning.problem == LoadProblem::OutOfOrder));
    assert_eq!(thread.warnings.total, 7);
}

#[tokio::test]
async fn lines_in_another_order_are_understood() {
    let home = Home::new();
    let log = home.thread("one").await;
    let text = fs::read_to_string(log.path()).unwrap();
    let pretty: String = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap().to_string() + "\n")
        .collect();
    assert!(!pretty.starts_with("{\"v\""));
    let before = home.store.load(log.id()).await.unwrap();
    fs::write(log.path(), pretty).unwrap();
    let after = home.another_store().load(log.id()).await.unwrap();
    assert_eq!(after.thread.turns(), before.thread.turns());
    assert_eq!(after.history, before.history);
    assert_eq!(home.previews().await, ["one"]);
    home.another_store().open_log(log.id()).await.unwrap();
}

#[tokio::test]
async fn a_file_of_codex_is_named_as_such_and_never_touched() {
    let home = Home::new();
    let log = home.thread("ours").await;
    let codex = "{\"timestamp\":\"2026-11-15T20:00:00.123Z\",\"type\":\"session_meta\",\"payload\":{}}\ntorn";
    fs::write(log.path(), codex).unwrap();
    let store = home.another_store();
    let expected = format!(
        "{} is not a stored thread: it was written by codex; `codicil import` takes it over",
        log.path().display()
    );
    assert_eq!(store.load(log.id()).await.unwrap_err().to_string(), expected);
    assert_eq!(store.open_log(log.id()).await.err().unwrap().to_string(), expected);
    assert_eq!(store.set_name(log.id(), "x").await.unwrap_err().to_string(), expected);
    assert_eq!(store.read_summary(log.id()).await.unwrap_err().to_string(), expected);
    assert_eq!(fs::read_to_string(log.path()).unwrap(), codex);
    assert!(home.previews().await.is_empty());
}

#[tokio::test]
async fn a_setting_in_an_unknown_form_does_not_lose_the_others() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let earlier = StoredSettings::without_snapshot("m-1".to_owned(), None);
    let later = StoredSettings {
        model: Some("m-2".to_owned()),
        effort: Some(ReasoningEffort::High),
        version: 2,
        snapshot: json!({ "settings": { "approvalPolicy": "never" } }),
    };
    log.append(&[Record::Settings(earlier.clone()), Record::Settings(later.clone())]).await.unwrap();
    let text = fs::read_to_string(log.path()).unwrap();
    let read = async |from: &str, to: &str| {
        fs::write(log.path(), text.replace(from, to)).unwrap();
        let thread = home.store.read(log.id()).await.unwrap();
        let problems: Vec<_> = thread.warnings.list.iter().map(|warning| warning.problem).collect();
        (thread.settings.unwrap(), problems)
    };
    let reported = vec![LoadProblem::UnreadableSetting];
    let without_effort = StoredSettings { effort: None, ..later.clone() };
    assert_eq!(read("\"effort\":\"high\"", "\"effort\":9").await, (without_effort, reported.clone()));
    let without_model = StoredSettings { model: None, ..later.clone() };
    assert_eq!(read("\"m-2\"", "{}").await, (without_model, reported));
    let version_1 = StoredSettings { version: 1, ..later };
    assert_eq!(read("\"version\":2,", "").await, (version_1, Vec::new()));
    // An empty record does not replace the record before it.
    let nothing = read(
        r#","model":"m-2","effort":"high","version":2,"snapshot":{"settings":{"approvalPolicy":"never"}}"#,
        "",
    )
    .await;
    assert_eq!(nothing, (earlier, vec![LoadProblem::Unreadable]));
}
