//! A server that does what a test says, message by message.

use bytes::Bytes;
use codicil_client::{Builder, Client, Endpoint};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::soon;

/// The server's side of a connection.
pub struct Fake {
    from_client: mpsc::Receiver<Bytes>,
    to_client: mpsc::Sender<Bytes>,
}

impl Fake {
    /// A server, and where to connect to it.
    pub fn new() -> (Self, Endpoint) {
        let (to_server, from_client) = mpsc::channel(64);
        let (to_client, from_server) = mpsc::channel(64);
        (Self { from_client, to_client }, Endpoint::channels(to_server, from_server))
    }

    /// A client that has shaken hands with its server.
    pub async fn connected(builder: Builder) -> (Self, Client) {
        let (mut fake, endpoint) = Self::new();
        let (client, ()) = tokio::join!(builder.connect(endpoint), fake.greet());
        (fake, client.unwrap())
    }

    pub async fn greet(&mut self) {
        let hello = self.expect("initialize").await;
        self.reply(&hello, json!({ "userAgent": "fake/1.0" })).await;
        self.expect("initialized").await;
    }

    /// The client's next message; `None` when it has gone.
    pub async fn next(&mut self) -> Option<Value> {
        let message = soon(self.from_client.recv()).await?;
        Some(serde_json::from_slice(&message).unwrap())
    }

    /// The client's next message, which must be of this method.
    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("the client goes on");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn reply(&self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    pub async fn refuse(&self, request: &Value, code: i64, message: &str) {
        self.send(json!({ "id": request["id"], "error": { "code": code, "message": message } })).await;
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params })).await;
    }

    /// Asks the client something and returns its answer.
    pub async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.send(json!({ "id": id, "method": method, "params": params })).await;
        let answer = self.next().await.expect("the client goes on");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub async fn send(&self, message: Value) {
        self.send_raw(message.to_string()).await;
    }

    pub async fn send_raw(&self, message: impl Into<Bytes>) {
        soon(self.to_client.send(message.into())).await.expect("the client goes on");
    }

    /// Takes a `turn/start` and answers it.
    pub async fn take_turn(&mut self, thread: &str, turn: &str) -> Value {
        let request = self.expect("turn/start").await;
        assert_eq!(request["params"]["threadId"], thread);
        self.reply(&request, json!({ "turn": running(turn) })).await;
        request
    }

    pub async fn item(&self, thread: &str, turn: &str, item: Value) {
        self.notify("item/completed", json!({ "threadId": thread, "turnId": turn, "item": item })).await;
    }

    pub async fn complete(&self, thread: &str, turn: &str) {
        let turn = json!({ "id": turn, "items": [], "status": "completed", "error": null });
        self.notify("turn/completed", json!({ "threadId": thread, "turn": turn })).await;
    }
}

pub fn running(turn: &str) -> Value {
    json!({ "id": turn, "items": [], "status": "inProgress", "error": null })
}

pub fn message(id: &str, text: &str) -> Value {
    json!({ "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null })
}
