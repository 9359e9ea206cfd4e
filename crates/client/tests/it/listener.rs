//! A socket at which a test plays one server after another.

use codicil_client::UnixSocket;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixListener,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    fake::{message, running},
    soon,
};

/// A socket at which the test plays one server after another.
pub struct TestListener {
    _folder: tempfile::TempDir,
    pub address: UnixSocket,
    socket: UnixListener,
}

/// The server side of one connection.
pub struct TestConnection {
    pub lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl TestListener {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        Self { _folder: folder, address: UnixSocket::new(path), socket }
    }

    pub async fn accept(&self) -> TestConnection {
        self.accept_with(json!({})).await
    }

    /// Accepts a connection and answers `initialize` with this result.
    pub async fn accept_with(&self, server: Value) -> TestConnection {
        let mut connection = self.accept_refused(server).await;
        connection.expect("initialized").await;
        connection
    }

    /// The same for a client that goes no further.
    pub async fn accept_refused(&self, server: Value) -> TestConnection {
        let (reader, writer) = soon(self.socket.accept()).await.unwrap().0.into_split();
        let mut connection = TestConnection { lines: BufReader::new(reader).lines(), writer };
        let hello = connection.expect("initialize").await;
        connection.reply(&hello, server).await;
        connection
    }
}

impl TestConnection {
    pub async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().expect("the connection is open");
        serde_json::from_str(&line).unwrap()
    }

    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    pub async fn send_line(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub async fn take_turn(&mut self, thread: &str, turn: &str) {
        let request = self.expect("turn/start").await;
        assert_eq!(request["params"]["threadId"], thread);
        self.reply(&request, json!({ "turn": running(turn) })).await;
    }

    pub async fn complete(&mut self, thread: &str, turn: &str, text: &str) {
        let params = json!({ "threadId": thread, "turnId": turn, "item": message("i", text) });
        self.send(json!({ "method": "item/completed", "params": params })).await;
        let turn = json!({ "id": turn, "items": [], "status": "completed", "error": null });
        let params = json!({ "threadId": thread, "turn": turn });
        self.send(json!({ "method": "turn/completed", "params": params })).await;
    }

    pub async fn start_thread(&mut self, id: &str) {
        let request = self.expect("thread/start").await;
        self.reply(&request, json!({ "thread": { "id": id } })).await;
    }
}
