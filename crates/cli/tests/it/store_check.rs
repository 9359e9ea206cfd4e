//! `codicil store check` on sound and on damaged homes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{self, Command},
    time::{Duration, SystemTime},
};

use codicil_protocol::{ItemId, SessionSource, ThreadItem, TurnStatus, UserInput};
use codicil_store::{BLOB_MIN, ListQuery, Record, Store, ThreadMeta, new_thread_id};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::text;

/// A home with two threads, a blob and a complete index.
struct CheckedHome {
    dir: TempDir,
    thread: PathBuf,
}

impl CheckedHome {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut paths = Vec::new();
        for text in ["small", &"big ".repeat(BLOB_MIN)] {
            let meta = ThreadMeta::new(new_thread_id(), "/work", SessionSource::Vscode, "mock");
            let mut log = store.create(meta).await.unwrap();
            log.append(&turn("t1", text)).await.unwrap();
            log.append(&[Record::Name { name: "a name".to_owned() }]).await.unwrap();
            paths.push(log.path());
        }
        store.close().await.unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        for dir in paths[0].ancestors().skip(1).take(4) {
            // In the past, so that the index trusts the times of the directories.
            fs::File::open(dir).unwrap().set_modified(long_ago).unwrap();
        }
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.list(ListQuery::default()).await.unwrap().threads.len(), 2);
        store.close().await.unwrap();
        Self { dir, thread: paths[0].clone() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Checks the home. Returns the exit code and the report.
    fn check(&self) -> (Option<i32>, Value) {
        let before = contents(self.path());
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(["store", "check", "--json", "--home"]).arg(self.path()).env_remove("RUST_LOG");
        let output = command.output().unwrap();
        assert_eq!(contents(self.path()), before, "a check changes nothing");
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (output.status.code(), report)
    }

    /// Checks that damage to the file of the first thread is found.
    fn check_damage(&self, damage: impl FnOnce(Vec<String>) -> Vec<String>, line: Value, kind: &str) {
        let whole = fs::read_to_string(&self.thread).unwrap();
        let lines = damage(whole.lines().map(str::to_owned).collect());
        fs::write(&self.thread, lines.join("\n") + "\n").unwrap();
        self.expect(kind, line);
        fs::write(&self.thread, whole).unwrap();
    }

    /// Checks that the only finding besides the index is of this kind.
    fn expect(&self, kind: &str, line: Value) {
        let (code, report) = self.check();
        let findings: Vec<_> = report["findings"].as_array().unwrap().iter().collect();
        let found: Vec<_> = findings.iter().filter(|finding| finding["kind"] != "indexRow").collect();
        assert_eq!(found.len(), 1, "{kind}: {report}");
        assert_eq!((&found[0]["kind"], &found[0]["line"]), (&json!(kind), &line), "{report}");
        let is_problem = !matches!(kind, "unknownRecord" | "unfinishedTurn");
        assert_eq!(found[0]["isProblem"], is_problem, "{report}");
        let has_problem = findings.iter().any(|finding| finding["isProblem"] == true);
        assert_eq!((code, &report["ok"]), (Some(i32::from(has_problem)), &json!(!has_problem)), "{report}");
    }
}

fn turn(id: &str, text: &str) -> Vec<Record> {
    let content = vec![UserInput::Text { text: text.to_owned(), text_elements: Vec::new() }];
    let item = ThreadItem::UserMessage { id: ItemId::from(format!("{id}-user")), content, client_id: None };
    vec![
        Record::Turn { turn_id: id.into(), run: None },
        Record::Item { turn_id: id.into(), item },
        Record::TurnEnd { turn_id: id.into(), status: TurnStatus::Completed, error: None, cause: None },
    ]
}

/// Returns the content and the time of every file of a home.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            all.insert(
                path.clone(),
                (entry.metadata().unwrap().modified().unwrap(), fs::read(path).unwrap()),
            );
        }
    }
    all
}

#[tokio::test]
async fn a_sound_home_has_no_findings() {
    let home = CheckedHome::new().await;
    let (code, report) = home.check();
    assert_eq!((code, &report["ok"], &report["findings"]), (Some(0), &json!(true), &json!([])), "{report}");
    assert_eq!((&report["threads"], &report["records"]), (&json!(2), &json!(10)), "{report}");
    assert_eq!((&report["blobs"], &report["indexRows"]), (&json!(1), &json!(2)), "{report}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    let output = command.args(["store", "check"]).env("CODICIL_HOME", home.path()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(
        text(&output.stdout),
        "2 threads with 10 records, 1 blob and 2 index rows read\nEverything is sound.\n"
    );
}

#[tokio::test]
async fn damaged_lines_are_named() {
    let home = CheckedHome::new().await;
    let with_ordinal = |line: &str, ordinal: usize| {
        let rest = line.split_once(",\"timestamp\"").unwrap().1;
        format!("{{\"v\":1,\"ordinal\":{ordinal},\"timestamp\"{rest}")
    };
    let replace = |at: usize, line: &'static str| {
        move |mut lines: Vec<String>| {
            lines[at] = line.to_owned();
            lines
        }
    };
    home.check_damage(replace(2, "not a record"), json!(3), "unreadableLine");
    home.check_damage(
        |mut lines| {
            lines.remove(2);
            lines
        },
        json!(3),
        "missingRecords",
    );
    home.check_damage(
        |mut lines| {
            lines.push(with_ordinal(&lines[4], 4));
            lines
        },
        json!(6),
        "doubledOrdinal",
    );
    home.check_damage(
        |mut lines| {
            lines.push(with_ordinal(&lines[4], 2));
            lines
        },
        json!(6),
        "outOfOrder",
    );
    home.check_damage(
        |mut lines| {
            lines.push(with_ordinal(&lines[4], 5).replace("\"type\":\"name\"", "\"type\":\"future\""));
            lines
        },
        json!(6),
        "unknownRecord",
    );
    home.check_damage(
        |mut lines| {
            lines.remove(3);
            lines[3] = with_ordinal(&lines[3], 3);
            lines
        },
        Value::Null,
        "unfinishedTurn",
    );
    home.check_damage(replace(0, "{}"), Value::Null, "notAThread");

    let mut file = fs::OpenOptions::new().append(true).open(&home.thread).unwrap();
    file.write_all(b"{\"v\":1,\"ordinal\":5,\"timest").unwrap();
    home.expect("tornTail", json!(6));
}

#[tokio::test]
async fn lost_and_damaged_texts_are_named() {
    let home = CheckedHome::new().await;
    let (path, (_, content)) = contents(&home.path().join("blobs")).pop_first().unwrap();
    fs::write(&path, "something else").unwrap();
    home.expect("damagedBlob", Value::Null);
    fs::remove_file(&path).unwrap();
    home.expect("missingBlob", json!(3));
    fs::write(&path, content).unwrap();
    assert_eq!(home.check().0, Some(0));
}

#[tokio::test]
async fn an_index_that_differs_from_the_files_is_found() {
    let home = CheckedHome::new().await;
    let whole = fs::read_to_string(&home.thread).unwrap();
    // In place, so that the directory stays as it is and the index trusts its row.
    fs::write(&home.thread, whole.replace("a name", "b name")).unwrap();
    let (code, report) = home.check();
    assert_eq!((code, &report["findings"][0]["kind"]), (Some(1), &json!("indexRow")), "{report}");
    let message = report["findings"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("has another name; `codicil reindex` corrects it"), "{message}");
    let mut reindex = Command::new(env!("CARGO_BIN_EXE_codicil"));
    assert!(reindex.arg("reindex").env("CODICIL_HOME", home.path()).status().unwrap().success());
    assert_eq!(home.check().0, Some(0));

    fs::write(home.path().join("codicil_index.sqlite"), "not a database ".repeat(1000)).unwrap();
    home.expect("damagedIndex", Value::Null);
}

#[tokio::test]
async fn an_index_without_tables_is_one_that_the_next_server_creates() {
    let home = CheckedHome::new().await;
    // A server that is killed while it creates the index leaves this.
    fs::write(home.path().join("codicil_index.sqlite"), "").unwrap();
    let (code, report) = home.check();
    assert_eq!(
        (code, &report["findings"], &report["indexRows"]),
        (Some(0), &json!([]), &json!(0)),
        "{report}"
    );
}

#[tokio::test]
async fn a_turn_without_an_end_names_its_process() {
    let home = CheckedHome::new().await;
    let store = Store::open(home.path()).unwrap();
    let meta = ThreadMeta::new(new_thread_id(), "/work", SessionSource::Vscode, "mock");
    let mut log = store.create(meta).await.unwrap();
    let run = store.begin_run().await.unwrap();
    log.append(&[Record::Turn { turn_id: "t1".into(), run }]).await.unwrap();
    let (code, report) = home.check();
    let message = report["findings"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!((code, &report["findings"][0]["kind"]), (Some(0), &json!("unfinishedTurn")), "{report}");
    assert!(
        message.contains(&format!("process {}", process::id())) && message.contains("runs it"),
        "{message}"
    );
    store.close().await.unwrap();
    let (_, report) = home.check();
    assert!(report["findings"][0]["message"].as_str().unwrap().contains("is over"), "{report}");
}

#[test]
fn a_home_that_does_not_exist_is_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    let output = command.args(["store", "check", "--home", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot read /nowhere/at/all"), "{output:?}");
}
