//! A server that the test plays message by message.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use codicil_agents::{
    client::Endpoint,
    evaluate::{ClientConfig, Evaluator, ModelConfig},
};
use codicil_testkit::FakeServer;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::soon;

/// The server side of one connection, with thread `t` and turn `u`.
pub struct Fake(FakeServer);

impl Deref for Fake {
    type Target = FakeServer;

    fn deref(&self) -> &FakeServer {
        &self.0
    }
}

impl DerefMut for Fake {
    fn deref_mut(&mut self) -> &mut FakeServer {
        &mut self.0
    }
}

/// The servers that an evaluator has connected to, in order.
pub struct Servers(mpsc::Receiver<Fake>);

/// Returns an evaluator whose servers the test plays.
pub fn evaluator(config: ClientConfig) -> (Evaluator, Servers) {
    let (sender, servers) = mpsc::channel(8);
    let sender = Arc::new(sender);
    let evaluator = Evaluator::new(config, ModelConfig::default()).unwrap().connect_with(move || {
        let sender = sender.clone();
        async move {
            let (fake, to_server, from_server) = FakeServer::new();
            sender.send(Fake(fake)).await.unwrap();
            Ok(Endpoint::channels(to_server, from_server))
        }
    });
    (evaluator, Servers(servers))
}

impl Servers {
    /// The next connection, after its handshake.
    pub async fn accept(&mut self) -> Fake {
        let mut fake = self.next().await;
        fake.greet().await;
        fake
    }

    pub async fn next(&mut self) -> Fake {
        soon(self.0.recv()).await.expect("the evaluator connects")
    }
}

impl Fake {
    pub async fn refuse(&self, request: &Value, message: &str) {
        self.0.refuse(request, -32600, message).await;
    }

    /// Sends a request to the client and returns its response.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.0.ask("question", method, params).await
    }

    /// Calls a tool of the prompt and returns the `result` of the response.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params =
            json!({ "threadId": "t", "turnId": "u", "callId": "c1", "tool": tool, "arguments": arguments });
        self.ask("item/tool/call", params).await["result"].clone()
    }

    /// Answers `thread/start` with thread `t` and returns its params.
    pub async fn start_thread(&mut self) -> Value {
        let request = self.expect("thread/start").await;
        self.reply(&request, json!({ "thread": { "id": "t" } })).await;
        request["params"].clone()
    }

    /// Answers `turn/start` with turn `u` and returns its params.
    pub async fn start_turn(&mut self) -> Value {
        self.take_turn("t", "u").await["params"].clone()
    }

    pub async fn item(&self, item: Value) {
        self.0.item("t", "u", item).await;
    }

    pub async fn say(&self, text: &str) {
        self.item(json!({ "type": "agentMessage", "id": "say", "text": text })).await;
    }

    /// Reports the usage of the thread and of its last response.
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
        self.0.end("t", "u", status, error).await;
    }

    pub async fn complete(&self) {
        self.0.complete("t", "u").await;
    }

    /// Plays a whole evaluation with this answer.
    pub async fn play(&mut self, answer: &str) {
        self.start_thread().await;
        self.start_turn().await;
        self.say(answer).await;
        self.complete().await;
    }
}
