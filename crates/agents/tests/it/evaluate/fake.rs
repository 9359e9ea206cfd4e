//! A server that does what a test says, message by message.

use std::sync::Arc;

use bytes::Bytes;
use codicil_agents::{
    client::Endpoint,
    evaluate::{ClientConfig, Evaluator, ModelConfig},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::soon;

/// The server's side of one connection.
pub struct Fake {
    from_client: mpsc::Receiver<Bytes>,
    to_client: mpsc::Sender<Bytes>,
}

/// The servers that an evaluator has connected to, in order.
pub struct Servers(mpsc::Receiver<Fake>);

/// An evaluator whose servers are played by the test.
pub fn evaluator(config: ClientConfig) -> (Evaluator, Servers) {
    let (sender, servers) = mpsc::channel(8);
    let sender = Arc::new(sender);
    let evaluator = Evaluator::new(config, ModelConfig::default()).unwrap().connect_with(move || {
        let sender = sender.clone();
        async move {
            let (to_server, from_client) = mpsc::channel(64);
            let (to_client, from_server) = mpsc::channel(64);
            sender.send(Fake { from_client, to_client }).await.unwrap();
            Ok(Endpoint::channels(to_server, from_server))
        }
    });
    (evaluator, Servers(servers))
}

impl Servers {
    /// The next connection, after its handshake.
    pub async fn greeted(&mut self) -> Fake {
        let mut fake = self.next().await;
        let hello = fake.expect("initialize").await;
        fake.reply(&hello, json!({ "userAgent": "fake/1.0" })).await;
        fake.expect("initialized").await;
        fake
    }

    pub async fn next(&mut self) -> Fake {
        soon(self.0.recv()).await.expect("the evaluator connects")
    }
}

impl Fake {
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

    /// The same without a limit of its own, for tests whose clock stands still.
    pub async fn expect_late(&mut self, method: &str) -> Value {
        let message = self.from_client.recv().await.expect("the client goes on");
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn reply(&self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    pub async fn refuse(&self, request: &Value, message: &str) {
        self.send(json!({ "id": request["id"], "error": { "code": -32600, "message": message } })).await;
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params })).await;
    }

    pub async fn send(&self, message: Value) {
        soon(self.to_client.send(message.to_string().into())).await.expect("the client goes on");
    }

    /// Asks the client something and returns its answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "id": "question", "method": method, "params": params })).await;
        let answer = self.next().await.expect("the client goes on");
        assert_eq!(answer["id"], "question", "{answer}");
        answer
    }

    /// Calls one of the prompt's tools and returns the answer's `result`.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params =
            json!({ "threadId": "t", "turnId": "u", "callId": "c1", "tool": tool, "arguments": arguments });
        self.ask("item/tool/call", params).await["result"].clone()
    }

    /// Takes `thread/start` and answers it with thread `t`.
    pub async fn start_thread(&mut self) -> Value {
        let request = self.expect("thread/start").await;
        self.reply(&request, json!({ "thread": { "id": "t" } })).await;
        request["params"].clone()
    }

    /// Takes `turn/start` and answers it with turn `u`.
    pub async fn start_turn(&mut self) -> Value {
        let request = self.expect("turn/start").await;
        let turn = json!({ "id": "u", "items": [], "status": "inProgress", "error": null });
        self.reply(&request, json!({ "turn": turn })).await;
        request["params"].clone()
    }

    pub async fn item(&self, item: Value) {
        self.notify("item/completed", json!({ "threadId": "t", "turnId": "u", "item": item })).await;
    }

    pub async fn say(&self, text: &str) {
        self.item(json!({ "type": "agentMessage", "id": "say", "text": text })).await;
    }

    /// Reports that the thread has used this, the last response that.
    pub async fn usage(&self, total: [i64; 2], last: [i64; 2]) {
        let counts = |[input, output]: [i64; 2]| {
            json!({ "totalTokens": input + output, "inputTokens": input, "cachedInputTokens": 0,
                    "outputTokens": output, "reasoningOutputTokens": 0 })
        };
        let usage = json!({ "total": counts(total), "last": counts(last), "modelContextWindow": null });
        let params = json!({ "threadId": "t", "turnId": "u", "tokenUsage": usage });
        self.notify("thread/tokenUsage/updated", params).await;
    }

    pub async fn end(&self, status: &str, error: Value) {
        let turn = json!({ "id": "u", "items": [], "status": status, "error": error });
        self.notify("turn/completed", json!({ "threadId": "t", "turn": turn })).await;
    }

    pub async fn complete(&self) {
        self.end("completed", Value::Null).await;
    }

    /// Thread, turn, an answer and the end.
    pub async fn play(&mut self, answer: &str) {
        self.start_thread().await;
        self.start_turn().await;
        self.say(answer).await;
        self.complete().await;
    }
}
