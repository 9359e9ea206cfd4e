//! A server at a socket that the test plays, one connection after another.
//!
//! Requests of the handshake and about threads are recorded and answered automatically. Turns, and methods that the test
//! reserves, are left to it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use codicil_client::UnixSocket;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::mpsc,
    task::JoinSet,
};

use super::soon;

pub struct Fake {
    pub address: UnixSocket,
    connections: mpsc::Receiver<Connection>,
    pub rules: Arc<Rules>,
    _folder: tempfile::TempDir,
    _accepting: JoinSet<()>,
}

/// The state that all connections share.
#[derive(Default)]
pub struct Rules {
    threads: AtomicUsize,
    turns: AtomicUsize,
    /// Whether the server has lost its stored threads.
    pub forgets: AtomicBool,
    /// Methods that the test answers.
    pub own: Mutex<Vec<&'static str>>,
}

/// Ends the connection after everything before it is written.
const LAST_LINE: &str = "the end";

/// One connection.
pub struct Connection {
    from_client: mpsc::Receiver<Value>,
    to_client: mpsc::Sender<String>,
    seen: Arc<Mutex<Vec<Value>>>,
    rules: Arc<Rules>,
    /// Dropped with the connection, which closes it at once.
    tasks: JoinSet<()>,
}

impl Fake {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, connections) = mpsc::channel(16);
        let rules = Arc::<Rules>::default();
        let mut accepting = JoinSet::new();
        let common = rules.clone();
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if sender.send(Connection::new(stream, common.clone())).await.is_err() {
                    return;
                }
            }
        });
        Self { address: UnixSocket::new(path), connections, rules, _folder: folder, _accepting: accepting }
    }

    /// The next connection.
    pub async fn accept(&mut self) -> Connection {
        soon(self.connections.recv()).await.expect("the socket stays open")
    }

    /// Leaves requests of this method to the test.
    pub fn own(&self, method: &'static str) {
        self.rules.own.lock().push(method);
    }
}

impl Connection {
    fn new(stream: UnixStream, rules: Arc<Rules>) -> Self {
        let (reader, mut writer) = stream.into_split();
        let (to_client, mut lines) = mpsc::channel::<String>(64);
        let (sender, from_client) = mpsc::channel(256);
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let writing = async move {
            while let Some(line) = lines.recv().await {
                if line == LAST_LINE || writer.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let answers = to_client.clone();
        let notes = seen.clone();
        let common = rules.clone();
        let reading = async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                notes.lock().push(message.clone());
                match common.answer(&message) {
                    Some(answer) => drop(answers.send(answer.to_string()).await),
                    None => drop(sender.send(message).await),
                }
            }
        };
        let mut tasks = JoinSet::new();
        // The server ends when the client disconnects.
        tasks.spawn(async move {
            tokio::select! {
                () = writing => {}
                () = reading => {}
            }
        });
        Self { from_client, to_client, seen, rules, tasks }
    }

    /// Returns the next message that is left to the test.
    pub async fn next(&mut self) -> Value {
        loop {
            let message = soon(self.from_client.recv()).await.expect("the client is connected");
            if message["method"] != "initialized" {
                return message;
            }
        }
    }

    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Waits until the client has disconnected.
    pub async fn is_over(&mut self) -> bool {
        while let Some(message) = soon(self.from_client.recv()).await {
            assert_eq!(message["method"], "initialized", "{message}");
        }
        true
    }

    /// Accepts a turn and returns its thread and its id.
    pub async fn turn(&mut self) -> (String, String) {
        let request = self.expect("turn/start").await;
        let turn = format!("u{}", self.rules.turns.fetch_add(1, Ordering::Relaxed) + 1);
        let started = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
        self.reply(&request, json!({ "turn": started })).await;
        (request["params"]["threadId"].as_str().unwrap().to_owned(), turn)
    }

    /// Accepts a turn as older servers do, and returns its text.
    pub async fn bare_turn(&mut self) -> String {
        let request = self.expect("turn/start").await;
        self.reply(&request, Value::Null).await;
        self.notify("turn/started", json!({})).await;
        said(&request)
    }

    /// Sends a text and ends the turn.
    pub async fn complete(&self, thread: &str, turn: &str, text: &str) {
        let delta = json!({ "threadId": thread, "turnId": turn, "itemId": "i", "delta": text });
        self.notify("item/agentMessage/delta", delta).await;
        let turn = json!({ "id": turn, "items": [], "status": "completed", "error": null });
        self.notify("turn/completed", json!({ "threadId": thread, "turn": turn })).await;
    }

    /// Like [`complete`](Self::complete), without ids.
    pub async fn bare_complete(&self, text: &str) {
        self.notify("item/agentMessage/delta", json!({ "delta": text })).await;
        self.notify("turn/completed", json!({ "status": "completed" })).await;
    }

    pub async fn reply(&self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    pub async fn refuse(&self, request: &Value, message: &str) {
        let error = json!({ "code": -32600, "message": message });
        self.send(json!({ "id": request["id"], "error": error })).await;
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params })).await;
    }

    pub async fn send(&self, message: Value) {
        self.send_raw(&message.to_string()).await;
    }

    pub async fn send_raw(&self, line: &str) {
        soon(self.to_client.send(line.to_owned())).await.expect("the client is connected");
    }

    /// Closes the connection after everything is written.
    pub async fn die(mut self) {
        self.send_raw(LAST_LINE).await;
        soon(self.tasks.join_next()).await;
    }

    /// Returns the params of every message of this method so far.
    pub fn seen(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock();
        seen.iter().filter(|message| message["method"] == method).map(|it| it["params"].clone()).collect()
    }
}

impl Rules {
    /// Returns the automatic response; `None` if the message is left to the test.
    fn answer(&self, message: &Value) -> Option<Value> {
        let method = message["method"].as_str()?;
        if self.own.lock().contains(&method) {
            return None;
        }
        let result = match method {
            "initialize" => json!({ "userAgent": "fake/1.0" }),
            "thread/start" | "thread/fork" => {
                let number = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
                json!({ "thread": { "id": format!("t{number}") }, "model": "m" })
            }
            "thread/resume" if self.forgets.load(Ordering::Relaxed) => {
                let error = json!({ "code": -32600, "message": "no rollout found for thread id" });
                return Some(json!({ "id": message["id"], "error": error }));
            }
            "thread/resume" => json!({ "thread": { "id": message["params"]["threadId"] } }),
            "thread/unsubscribe" => json!({ "status": "unsubscribed" }),
            "thread/archive" => json!({}),
            _ => return None,
        };
        Some(json!({ "id": message["id"], "result": result }))
    }
}

/// Returns the text of a `turn/start`.
pub fn said(request: &Value) -> String {
    request["params"]["input"][0]["text"].as_str().unwrap().to_owned()
}
