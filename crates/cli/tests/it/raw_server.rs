//! A server over stdio with a client that sends plain JSON, for tests that choose the server's user or
//! directory, or when to read.

use std::path::Path;

use codicil_testkit::ServerProcess;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
};

use crate::soon;

pub struct RawServer {
    pub process: ServerProcess,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl RawServer {
    /// Starts a server and initializes the connection.
    pub async fn start(home: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut process = ServerProcess::spawn_with(home, ["app-server"], change);
        let stdin = process.take_stdin();
        let lines = BufReader::new(process.take_stdout()).lines();
        let mut server = Self { process, stdin: Some(stdin), lines, next_id: 0 };
        let hello =
            server.send("initialize", json!({ "clientInfo": { "name": "raw", "version": "1" } })).await;
        server.answer(hello).await;
        server
    }

    /// Sends a request and returns its id.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({ "id": id, "method": method, "params": params }).to_string() + "\n";
        let stdin = self.stdin.as_mut().expect("the input is open");
        soon(stdin.write_all(line.as_bytes())).await.expect("the server reads");
        id
    }

    /// Returns the next message; `None` at the end of the output.
    pub async fn next(&mut self) -> Option<Value> {
        let line = soon(self.lines.next_line()).await.ok()??;
        Some(serde_json::from_str(&line).expect("the server writes JSON"))
    }

    /// Waits for the response to a request and drops everything before it.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await.expect("the server is running");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// Closes the input, and with it the connection.
    pub fn close(&mut self) {
        self.stdin = None;
    }
}
