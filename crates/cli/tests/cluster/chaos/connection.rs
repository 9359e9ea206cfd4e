//! A connection that may be lost at any time.

use std::{collections::VecDeque, time::Duration};

use codicil_protocol::{CODICIL_VERSION, rpc::ErrorObject};
use codicil_testkit::ReceivedMessage;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

/// The time after which a server counts as suspended. A request to a database that is away takes ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);

/// How a client reaches a thread that another server owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRoute {
    /// It is told where the thread is.
    Redirected,
    /// The server that it is connected to relays its requests.
    Relayed,
}

/// Why a request has no result.
#[derive(Debug)]
pub enum CallFailure {
    /// The connection has ended, or the server does not answer. Whether the request had an effect is unknown.
    Lost,
    Refused(ErrorObject),
}

pub struct LossyConnection {
    socket: WebSocketStream<TcpStream>,
    next_id: i64,
    unread: VecDeque<ReceivedMessage>,
}

impl LossyConnection {
    /// Connects and initializes; `None` if the server does not answer.
    pub async fn open(address: &str, route: OwnerRoute) -> Option<Self> {
        let connecting = async {
            let stream = TcpStream::connect(address).await.ok()?;
            let (socket, _) = client_async(format!("ws://{address}/"), stream).await.ok()?;
            Some(Self { socket, next_id: 1, unread: VecDeque::new() })
        };
        let mut connection = timeout(PATIENCE, connecting).await.ok()??;
        let redirect = route == OwnerRoute::Redirected;
        let params = json!({
            "clientInfo": { "name": "chaos", "title": null, "version": "1" },
            "capabilities": { "experimentalApi": true, "codicil": { "version": CODICIL_VERSION, "cursor": true, "redirect": redirect } },
        });
        connection.call("initialize", &params, None).await.ok()?;
        connection.send(&json!({ "method": "initialized" })).await.then_some(connection)
    }

    /// Calls a method, with a key if it may be repeated.
    pub async fn call(
        &mut self,
        method: &str,
        params: &Value,
        key: Option<&str>,
    ) -> Result<Value, CallFailure> {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(key) = key {
            request["codicil"] = json!({ "key": key });
        }
        if !self.send(&request).await {
            return Err(CallFailure::Lost);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut message = self.receive(deadline).await.ok_or(CallFailure::Lost)?;
            if message.get("method").is_some() || message["id"] != id {
                self.keep(message);
            } else if let Some(error) = message.get("error") {
                return Err(CallFailure::Refused(serde_json::from_value(error.clone()).unwrap()));
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    /// Returns the next message; `None` if the connection has ended, or is silent for long.
    pub async fn next(&mut self) -> Option<ReceivedMessage> {
        let deadline = Instant::now() + PATIENCE;
        while self.unread.is_empty() {
            let message = self.receive(deadline).await?;
            self.keep(message);
        }
        self.unread.pop_front()
    }

    /// Returns the next message that has arrived already.
    pub fn unread(&mut self) -> Option<ReceivedMessage> {
        self.unread.pop_front()
    }

    fn keep(&mut self, mut message: Value) {
        let Some(method) = message["method"].as_str().map(str::to_owned) else { return };
        self.unread.push_back(ReceivedMessage {
            method,
            id: None,
            seq: message["seq"].as_u64(),
            is_replay: message["replay"] == true,
            params: message["params"].take(),
        });
    }

    async fn send(&mut self, message: &Value) -> bool {
        let sending = self.socket.send(Message::text(message.to_string()));
        timeout(PATIENCE, sending).await.is_ok_and(|sent| sent.is_ok())
    }

    async fn receive(&mut self, deadline: Instant) -> Option<Value> {
        loop {
            match timeout_at(deadline, self.socket.next()).await.ok()??.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}
