//! A home in a temporary directory, and helpers that write turns and threads into it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, ItemId, ResponseItem, SessionSource, ThreadId, ThreadItem,
    ThreadTokenUsage, TokenUsageBreakdown, TurnId, TurnStatus, UserInput,
};
use codicil_store::{ListQuery, Record, Store, ThreadLog, ThreadMeta, ThreadPage, new_thread_id};
use jiff::{Timestamp, tz::TimeZone};
use tempfile::TempDir;
use uuid::Uuid;

/// A temporary home and its store.
pub struct Home {
    pub dir: TempDir,
    pub store: Store,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Self { dir, store }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Opens a store like another process.
    pub fn another_store(&self) -> Store {
        Store::open(self.path()).unwrap()
    }

    /// Closes the store and opens it again.
    pub async fn restart(&mut self) {
        self.store.close().await.unwrap();
        self.store = self.another_store();
    }

    pub async fn begin(&self) -> ThreadLog {
        self.store.create(meta(&new_thread_id())).await.unwrap()
    }

    /// A thread with one completed turn.
    pub async fn thread(&self, text: &str) -> ThreadLog {
        let mut log = self.begin().await;
        log.append(&turn("turn-1", text, "an answer")).await.unwrap();
        log
    }

    /// The first messages on the first page.
    pub async fn previews(&self) -> Vec<String> {
        previews(&self.store.list(ListQuery::default()).await.unwrap())
    }

    /// Returns all files of the home, relative to it.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        walk(self.path(), &mut files);
        let home = self.path();
        let mut names: Vec<_> =
            files.iter().map(|file| file.strip_prefix(home).unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            walk(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

const CHILD: &str = "CODICIL_STORE_TEST_HOME";

/// Returns a command that runs one ignored test of this binary on the given home.
pub fn child(test: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]).env(CHILD, home);
    command
}

/// Returns the home of a test that [`child`] runs; `None` if all ignored tests are run directly.
pub fn child_home() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

pub fn previews(page: &ThreadPage) -> Vec<String> {
    page.threads.iter().map(|thread| thread.preview.clone()).collect()
}

pub fn meta(id: &ThreadId) -> ThreadMeta {
    ThreadMeta::new(id.clone(), "/work/project", SessionSource::Vscode, "mock")
}

/// Returns a new id with the given time.
pub fn id_at(millisecond: u64) -> ThreadId {
    let mut bytes = *Uuid::now_v7().as_bytes();
    bytes[..6].copy_from_slice(&millisecond.to_be_bytes()[2..]);
    ThreadId::from(Uuid::from_bytes(bytes).to_string())
}

pub fn user(turn: &str, text: &str) -> ThreadItem {
    let content = vec![UserInput::Text { text: text.to_owned(), text_elements: Vec::new() }];
    ThreadItem::UserMessage { id: ItemId::from(format!("{turn}-user")), content, client_id: None }
}

pub fn agent(turn: &str, text: &str) -> ThreadItem {
    let id = ItemId::from(format!("{turn}-agent"));
    ThreadItem::AgentMessage {
        id,
        text: text.to_owned(),
        phase: None,
        memory_citation: None,
        delivery: None,
        questions: None,
    }
}

pub fn message(role: &str, text: &str) -> ResponseItem {
    let text = text.to_owned();
    let content = match role {
        "assistant" => ContentItem::OutputText { text },
        _ => ContentItem::InputText { text },
    };
    ResponseItem::Message {
        role: role.to_owned(),
        content: vec![content],
        end_turn: None,
        phase: None,
        id: None,
    }
}

pub fn call(id: &str) -> ResponseItem {
    ResponseItem::FunctionCall {
        name: "shell".to_owned(),
        namespace: None,
        arguments: "{\"command\":\"ls\"}".to_owned(),
        call_id: id.to_owned(),
        id: None,
    }
}

pub fn output(id: &str, text: &str) -> ResponseItem {
    let output = FunctionCallOutputBody::Text(text.to_owned());
    ResponseItem::function_call_output(id.to_owned(), output)
}

pub fn usage(tokens: i64) -> ThreadTokenUsage {
    let breakdown = TokenUsageBreakdown {
        total_tokens: tokens,
        input_tokens: tokens,
        cached_input_tokens: 0,
        cache_write_input_tokens: 0,
        output_tokens: 0,
        reasoning_output_tokens: 0,
    };
    ThreadTokenUsage { total: breakdown.clone(), last: breakdown, model_context_window: Some(100_000) }
}

/// Returns the first records of a turn.
pub fn begun(turn: &str, text: &str) -> Vec<Record> {
    let turn_id = TurnId::from(turn);
    vec![
        Record::Turn { turn_id: turn_id.clone(), run: None },
        Record::Item { turn_id: turn_id.clone(), item: user(turn, text) },
        Record::Context { turn_id: Some(turn_id), item: message("user", text) },
    ]
}

pub fn ended(turn: &str, status: TurnStatus) -> Record {
    Record::TurnEnd { turn_id: TurnId::from(turn), status, error: None, cause: None }
}

/// Returns the records of a complete turn.
pub fn turn(turn: &str, text: &str, answer: &str) -> Vec<Record> {
    let turn_id = TurnId::from(turn);
    let mut records = begun(turn, text);
    records.extend([
        Record::Context { turn_id: Some(turn_id.clone()), item: message("assistant", answer) },
        Record::Item { turn_id: turn_id.clone(), item: agent(turn, answer) },
        Record::Usage { turn_id, usage: usage(100) },
        ended(turn, TurnStatus::Completed),
    ]);
    records
}

/// Writes copies of a stored thread with other ids, times and first messages, without using the store.
pub struct Copies {
    id: String,
    text: String,
}

impl Copies {
    pub async fn of(home: &Home, text: &str) -> Self {
        let log = home.thread(text).await;
        let copies = Self { id: log.id().to_string(), text: fs::read_to_string(log.path()).unwrap() };
        fs::remove_file(log.path()).unwrap();
        copies
    }

    /// Writes a thread with the given time, in which `from` is replaced by `to`.
    pub fn put(&self, home: &Path, second: i64, from: &str, to: &str) -> (ThreadId, PathBuf) {
        let id = id_at(u64::try_from(second).unwrap() * 1000);
        let at = Timestamp::from_second(second).unwrap();
        let local = at.to_zoned(TimeZone::system());
        let stamp = format!("{at:.3}");
        let mut text = self.text.replace(&self.id, &id).replace(from, to);
        let mut start = 0;
        while let Some(found) = text[start..].find("\"timestamp\":\"") {
            start += found + "\"timestamp\":\"".len();
            text.replace_range(start..start + stamp.len(), &stamp);
        }
        let dir = home.join("sessions").join(local.strftime("%Y/%m/%d").to_string());
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("rollout-{}-{id}.jsonl", local.strftime("%Y-%m-%dT%H-%M-%S")));
        fs::write(&path, text).unwrap();
        (id, path)
    }
}
