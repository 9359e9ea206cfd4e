//! A server that a test controls message by message, for tests of clients.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use crate::app::MAX_WAIT;

/// The server side of one connection over channels.
pub struct FakeServer {
    from_client: mpsc::Receiver<Bytes>,
    to_client: mpsc::Sender<Bytes>,
}

impl FakeServer {
    /// Returns a server and the client's ends of the channels: for sending and for receiving.
    pub fn new() -> (Self, mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
        let (to_server, from_client) = mpsc::channel(64);
        let (to_client, from_server) = mpsc::channel(64);
        (Self { from_client, to_client }, to_server, from_server)
    }

    /// Answers the handshake.
    pub async fn greet(&mut self) {
        let hello = self.expect("initialize").await;
        self.reply(&hello, json!({ "userAgent": "fake/1.0" })).await;
        self.expect("initialized").await;
    }

    /// Returns the client's next message; `None` if it has disconnected.
    pub async fn next(&mut self) -> Option<Value> {
        let message = soon(self.from_client.recv()).await?;
        Some(read(&message))
    }

    /// Returns the client's next message, which must have this method.
    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("the client goes on");
        check(&message, "/method", method);
        message
    }

    /// Returns the client's next message like [`expect`](Self::expect), but without a timeout, for tests with a paused
    /// clock.
    pub async fn expect_late(&mut self, method: &str) -> Value {
        let message = read(&self.from_client.recv().await.expect("the client goes on"));
        check(&message, "/method", method);
        message
    }

    /// Answers a request.
    pub async fn reply(&self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    /// Answers a request with an error.
    pub async fn refuse(&self, request: &Value, code: i64, message: &str) {
        self.send(json!({ "id": request["id"], "error": { "code": code, "message": message } })).await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params })).await;
    }

    /// Sends a request and returns the client's answer.
    pub async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.send(json!({ "id": id, "method": method, "params": params })).await;
        let answer = self.next().await.expect("the client goes on");
        check(&answer, "/id", id);
        answer
    }

    /// Sends any message.
    pub async fn send(&self, message: Value) {
        self.send_raw(message.to_string()).await;
    }

    /// Sends bytes, which need not be a message.
    pub async fn send_raw(&self, message: impl Into<Bytes>) {
        soon(self.to_client.send(message.into())).await.expect("the client goes on");
    }

    /// Expects a `turn/start` on this thread and answers it with a turn of this id.
    pub async fn take_turn(&mut self, thread: &str, turn: &str) -> Value {
        let request = self.expect("turn/start").await;
        check(&request, "/params/threadId", thread);
        let running = json!({ "id": turn, "items": [], "status": "inProgress", "error": null });
        self.reply(&request, json!({ "turn": running })).await;
        request
    }

    /// Sends `item/completed`.
    pub async fn item(&self, thread: &str, turn: &str, item: Value) {
        self.notify("item/completed", json!({ "threadId": thread, "turnId": turn, "item": item })).await;
    }

    /// Sends `turn/completed` with a status.
    pub async fn end(&self, thread: &str, turn: &str, status: &str, error: Value) {
        let turn = json!({ "id": turn, "items": [], "status": status, "error": error });
        self.notify("turn/completed", json!({ "threadId": thread, "turn": turn })).await;
    }

    /// Sends `turn/completed` with the status `completed`.
    pub async fn complete(&self, thread: &str, turn: &str) {
        self.end(thread, turn, "completed", Value::Null).await;
    }
}

fn check(message: &Value, pointer: &str, expected: impl Into<Value>) {
    assert_eq!(message.pointer(pointer), Some(&expected.into()), "{message}");
}

fn read(message: &Bytes) -> Value {
    serde_json::from_slice(message).expect("clients write JSON")
}

async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(MAX_WAIT, event).await.expect("it happens soon")
}
