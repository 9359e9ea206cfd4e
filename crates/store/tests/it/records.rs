//! Records are read as they were written, and have the documented form on disk.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

use codicil_protocol::{
    CodexErrorInfo, CommandExecutionSource, CommandExecutionStatus, DynamicToolEntry, DynamicToolNamespace,
    DynamicToolSpec, GitInfo, ItemId, ReasoningEffort, ThreadId, ThreadItem, TurnError, TurnId, TurnStatus,
};
use codicil_store::{Record, StoreError, StoredSettings, ThreadJson, new_thread_id};
use serde_json::{Value, json};

use crate::support::{Home, agent, begun, ended, meta, turn, usage, user};

fn command(id: &str, output: &str) -> ThreadItem {
    ThreadItem::CommandExecution {
        id: ItemId::from(id),
        plugin_id: None,
        script_path: None,
        source: CommandExecutionSource::Agent,
        status: CommandExecutionStatus::Completed,
        aggregated_output: Some(output.to_owned()),
        command: "ls".to_owned(),
        command_actions: Vec::new(),
        cwd: "/work".to_owned(),
        duration_ms: Some(7),
        exit_code: Some(0),
        process_id: None,
    }
}

#[tokio::test]
async fn a_thread_is_read_as_it_was_written() {
    let mut home = Home::new();
    let mut start = meta(&new_thread_id());
    start.developer_instructions = Some("be brief".to_owned());
    let lookup = DynamicToolSpec {
        name: "lookup".to_owned(),
        description: "Looks up".to_owned(),
        input_schema: json!({ "type": "object" }),
        defer_loading: None,
    };
    let app = DynamicToolNamespace {
        name: "app".to_owned(),
        description: "The app".to_owned(),
        tools: vec![lookup.clone()],
    };
    start.dynamic_tools = vec![lookup.into(), DynamicToolEntry::Namespace(app)];
    let settings = StoredSettings {
        model: Some("m-2".to_owned()),
        effort: Some(ReasoningEffort::High),
        version: 2,
        snapshot: json!({ "approvalPolicy": "never" }),
    };
    let git = GitInfo { sha: Some("abc".to_owned()), branch: Some("main".to_owned()), origin_url: None };
    let mut log = home.store.create(start.clone()).await.unwrap();
    let item = command("call-1", "a\nb\n");
    let turn_id = TurnId::from("t1");
    log.append(&begun("t1", "Tidy the repo")).await.unwrap();
    log.append(&[
        Record::Settings(StoredSettings::without_snapshot("m-1".to_owned(), None)),
        Record::Settings(settings.clone()),
        Record::Item { turn_id: turn_id.clone(), item: item.clone() },
        Record::Usage { turn_id: turn_id.clone(), usage: usage(42) },
        Record::Git { git: Some(git.clone()) },
        Record::Name { name: "first".to_owned() },
        Record::Name { name: "second".to_owned() },
        Record::Extra { kind: "later".to_owned(), data: json!([1]) },
        ended("t1", TurnStatus::Completed),
    ])
    .await
    .unwrap();
    log.sync().await.unwrap();
    home.restart().await;

    let loaded = home.store.load(log.id()).await.unwrap();
    let thread = &loaded.thread;
    assert_eq!(thread.meta, start);
    assert_eq!(thread.settings, Some(settings));
    assert_eq!(thread.usage, Some((turn_id, usage(42))));
    assert_eq!((thread.name.as_deref(), &thread.git), (Some("second"), &Some(git)));
    assert_eq!(thread.preview.as_deref(), Some("Tidy the repo"));
    assert_eq!(thread.warnings.total, 0, "{:?}", thread.warnings);
    assert_eq!(thread.turns()[0].items, [user("t1", "Tidy the repo"), item]);
    assert_eq!((&thread.turns[0].status, thread.turns[0].ended), (&TurnStatus::Completed, true));
    assert_eq!(loaded.history.len(), 1);
    assert_eq!(thread.next_ordinal, 13);
}

#[tokio::test]
async fn lines_contain_version_ordinal_and_time() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&turn("t2", "two", "done")).await.unwrap();
    let text = fs::read_to_string(log.path()).unwrap();
    for (number, line) in text.lines().enumerate() {
        let head = format!("{{\"v\":1,\"ordinal\":{number},\"timestamp\":\"");
        assert!(line.starts_with(&head), "{line}");
        let value: Value = serde_json::from_str(line).unwrap();
        let stamp = value["timestamp"].as_str().unwrap();
        let shape: String =
            stamp.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
        assert_eq!(shape, "9999-99-99T99:99:99.999Z");
    }
    assert_eq!(text.lines().count(), 15);
}

#[tokio::test]
async fn files_are_where_the_reference_puts_them_and_private() {
    let home = Home::new();
    let log = home.thread("hello").await;
    home.store.flush().await.unwrap();
    let path = log.path();
    let relative = path.strip_prefix(home.path()).unwrap().to_str().unwrap();
    let parts: Vec<_> = relative.split('/').collect();
    assert_eq!((parts.len(), parts[0]), (5, "sessions"));
    let date = format!("{}-{}-{}T", parts[1], parts[2], parts[3]);
    assert!(parts[4].starts_with(&format!("rollout-{date}")), "{relative}");
    assert!(parts[4].ends_with(&format!("-{}.jsonl", log.id())), "{relative}");

    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&home.path().join("codicil_index.sqlite")), 0o600);
    for dir in path.ancestors().skip(1).take_while(|dir| *dir != home.path()) {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
}

#[tokio::test]
async fn a_thread_exists_before_its_first_turn() {
    let home = Home::new();
    let log = home.begin().await;
    let loaded = home.another_store().load(log.id()).await.unwrap();
    assert!(loaded.thread.turns.is_empty() && loaded.history.is_empty());
    assert_eq!(loaded.thread.preview, None);
    assert_eq!(home.store.read_summary(log.id()).await.unwrap().preview, "");
}

#[tokio::test]
async fn a_failed_turn_reads_as_failed_with_its_error() {
    let home = Home::new();
    let mut log = home.begin().await;
    let error = TurnError {
        message: "no such model".to_owned(),
        codex_error_info: Some(CodexErrorInfo::BadRequest),
        additional_details: None,
        misalignment: None,
    };
    log.append(&begun("t1", "hi")).await.unwrap();
    let turn_id = TurnId::from("t1");
    let status = TurnStatus::Failed;
    log.append(&[Record::TurnEnd { turn_id, status, error: Some(error.clone()), cause: None }])
        .await
        .unwrap();
    let turn = &home.store.read(log.id()).await.unwrap().turns()[0];
    assert_eq!((&turn.status, &turn.error), (&TurnStatus::Failed, &Some(error)));
}

#[tokio::test]
async fn an_item_that_completes_after_its_turn_joins_it() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&turn("t2", "two", "done")).await.unwrap();
    let turn_id = TurnId::from("turn-1");
    let late = command("terminal", "bye");
    log.append(&[Record::Item { turn_id: turn_id.clone(), item: late.clone() }]).await.unwrap();
    log.append(&[Record::Item { turn_id, item: agent("turn-1", "corrected") }]).await.unwrap();
    let turns = home.store.read(log.id()).await.unwrap().turns();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].items, [user("turn-1", "one"), agent("turn-1", "corrected"), late]);
}

#[tokio::test]
async fn the_json_of_a_thread_is_that_of_its_decoded_turns() {
    let home = Home::new();
    let mut log = home.thread("one \"quoted\" \u{1F600}").await;
    log.append(&turn("t2", "two", "line\nline")).await.unwrap();
    log.append(&begun("t3", "three")).await.unwrap();
    let stored = home.store.read(log.id()).await.unwrap();
    let mut thread = stored.summary();
    let raw = serde_json::to_value(ThreadJson::new(&thread, &stored.turns)).unwrap();
    thread.turns = stored.turns();
    assert_eq!(raw, serde_json::to_value(&thread).unwrap());
    let text = serde_json::to_string(&ThreadJson::new(&thread, &stored.turns)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), raw);
    assert_eq!(thread.turns[2].status, TurnStatus::Interrupted);
}

#[tokio::test]
async fn a_turn_writes_its_records_and_nothing_else() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let before = fs::metadata(log.path()).unwrap().len();
    let records = turn("t2", "two", "done");
    log.append(&records).await.unwrap();
    let payload: usize = records.iter().map(|record| serde_json::to_string(record).unwrap().len()).sum();
    let grown = usize::try_from(fs::metadata(log.path()).unwrap().len() - before).unwrap();
    assert!(grown < payload + 80 * records.len(), "{grown} bytes for {payload}");
}

#[tokio::test]
async fn existing_and_dangerous_ids_are_rejected() {
    let home = Home::new();
    let log = home.begin().await;
    let again = home.store.create(meta(log.id())).await;
    assert!(matches!(again, Err(StoreError::Exists(_))));
    for id in ["", "../escape", "a/b", "x y"].map(ThreadId::from) {
        assert!(matches!(home.store.create(meta(&id)).await, Err(StoreError::InvalidId(_))));
        assert!(matches!(home.store.load(&id).await, Err(StoreError::NotFound(_))));
        assert!(matches!(home.store.archive(&id).await, Err(StoreError::NotFound(_))));
    }
    assert!(!home.path().parent().unwrap().join("escape").exists());
    let error = home.store.load(&new_thread_id()).await.unwrap_err();
    assert!(error.to_string().starts_with("thread not found: 0"), "{error}");
}

#[tokio::test]
async fn ids_without_a_time_work_as_well() {
    let home = Home::new();
    let id = ThreadId::from("thr_9");
    let mut log = home.store.create(meta(&id)).await.unwrap();
    log.append(&turn("t1", "hello", "hi")).await.unwrap();
    let store = home.another_store();
    assert_eq!(store.find(&id).await.unwrap().path, log.path());
    assert_eq!(store.load(&id).await.unwrap().thread.turns.len(), 1);
    store.set_name(&id, "nine").await.unwrap();
    assert_eq!(store.read_summary(&id).await.unwrap().name.as_deref(), Some("nine"));
}

#[tokio::test]
async fn new_ids_are_unique_and_sort_by_time() {
    let ids: Vec<_> = (0..1000).map(|_| new_thread_id()).collect();
    assert!(ids.is_sorted());
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1000);
}

#[tokio::test]
async fn idle_threads_hold_no_open_file() {
    let home = Home::new();
    let open_files = || fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let mut logs = vec![home.thread("first").await];
    let before = open_files();
    for _ in 0..300 {
        logs.push(home.begin().await);
    }
    assert!(open_files() < before + 50, "{} files are open", open_files());
    for log in &mut logs {
        log.append(&turn("t", "WORDS", "answer")).await.unwrap();
    }
    assert!(open_files() < before + 50, "{} files are open", open_files());
}

#[tokio::test]
async fn a_withdrawn_item_is_skipped() {
    let mut home = Home::new();
    let mut log = home.store.create(meta(&new_thread_id())).await.unwrap();
    let turn_id = TurnId::from("t1");
    let [first, second] = ["call-1", "call-2"].map(|id| command(id, ""));
    let item = |item: &ThreadItem| Record::Item { turn_id: turn_id.clone(), item: item.clone() };
    log.append(&[
        Record::Turn { turn_id: turn_id.clone(), run: None },
        item(&first),
        item(&second),
        Record::withdrawn(&turn_id, first.id().unwrap()),
        Record::withdrawn(&turn_id, first.id().unwrap()),
        Record::withdrawn(&TurnId::from("t2"), second.id().unwrap()),
        ended("t1", TurnStatus::Completed),
    ])
    .await
    .unwrap();
    home.restart().await;
    let loaded = home.store.load(log.id()).await.unwrap();
    assert_eq!(loaded.thread.turns()[0].items, [second]);
    assert_eq!(loaded.thread.warnings.total, 0, "{:?}", loaded.thread.warnings);
}
