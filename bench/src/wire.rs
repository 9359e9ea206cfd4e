//! A connection to a server with little overhead, because the other end is measured.

use std::{borrow::Cow, time::Duration};

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{ChildStdin, ChildStdout},
    time::{sleep, timeout},
};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

/// Maximum time without a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time before a request to an overloaded server is repeated.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(200);

/// A connection over stdio or a websocket.
pub enum Wire {
    Stdio { to: ChildStdin, from: BufReader<ChildStdout>, next_id: i64 },
    WebSocket { stream: Box<WebSocketStream<TcpStream>>, next_id: i64 },
}

/// A message of the server. Unused parts are not decoded.
#[derive(Deserialize)]
pub struct Incoming<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    #[serde(borrow)]
    pub method: Option<Cow<'m, str>>,
    #[serde(borrow)]
    params: Option<&'m RawValue>,
    #[serde(borrow)]
    result: Option<&'m RawValue>,
    pub error: Option<Value>,
    /// The position of the message in its thread, for a client with a cursor.
    pub seq: Option<u64>,
}

impl Incoming<'_> {
    /// Returns the id of the request that this answers.
    pub fn answers(&self) -> Option<i64> {
        if self.method.is_some() {
            return None;
        }
        self.id?.get().parse().ok()
    }

    /// Returns the id of this message, if it is a request of the server.
    pub fn request_id(&self) -> Option<Value> {
        self.method.as_ref().and(self.id).map(|id| parsed(Some(id)))
    }

    pub fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    pub fn params(&self) -> Value {
        parsed(self.params)
    }

    /// Returns the result of the server, or its error.
    pub fn result(&self) -> Result<Value> {
        match &self.error {
            Some(error) => bail!("the server answers {error}"),
            None => Ok(parsed(self.result)),
        }
    }

    /// Returns whether the request was rejected because of overload.
    pub fn is_overload(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error["code"] == -32001)
    }

    /// Returns the length of a member of the params that is a string without escapes.
    pub fn text_len(&self, key: &str) -> usize {
        let params = self.params.map_or("", RawValue::get);
        let start = params.find(key).map(|at| at + key.len() + 3);
        start.and_then(|at| params.get(at..)).and_then(|text| text.find('"')).unwrap_or(0)
    }
}

fn parsed(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

impl Wire {
    pub fn stdio(to: ChildStdin, from: ChildStdout) -> Self {
        Self::Stdio { to, from: BufReader::with_capacity(1 << 18, from), next_id: 1 }
    }

    pub async fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (stream, _) = client_async(format!("ws://127.0.0.1:{port}/"), stream).await?;
        Ok(Self::WebSocket { stream: Box::new(stream), next_id: 1 })
    }

    pub async fn initialize(&mut self) -> Result<()> {
        self.initialize_with(json!({ "experimentalApi": true })).await.map(drop)
    }

    /// Initializes a connection with a cursor. Returns false if the server has none.
    pub async fn initialize_with_cursor(&mut self) -> Result<bool> {
        let extension = json!({ "version": 1, "cursor": true });
        let result = self.initialize_with(json!({ "experimentalApi": true, "codicil": extension })).await?;
        Ok(result["codicil"].is_object())
    }

    async fn initialize_with(&mut self, capabilities: Value) -> Result<Value> {
        let client = json!({ "name": "bench", "title": "Bench", "version": "1.0.0" });
        let params = json!({ "clientInfo": client, "capabilities": capabilities });
        let result = self.call("initialize", params).await?;
        self.write(json!({ "method": "initialized" }).to_string()).await?;
        Ok(result)
    }

    /// Sends a request and returns its id.
    pub async fn post(&mut self, method: &str, params: Value) -> Result<i64> {
        let (Self::Stdio { next_id, .. } | Self::WebSocket { next_id, .. }) = self;
        let id = *next_id;
        *next_id += 1;
        self.write(json!({ "id": id, "method": method, "params": params }).to_string()).await?;
        Ok(id)
    }

    /// Sends a request and waits for its answer. Messages in between are dropped. The request is repeated if
    /// the server is overloaded.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        loop {
            let id = self.post(method, params.clone()).await?;
            let answer = self.until(|message| {
                let ours = message.answers() == Some(id);
                ours.then(|| if message.is_overload() { Ok(None) } else { message.result().map(Some) })
            });
            if let Some(result) = answer.await?.with_context(|| method.to_owned())? {
                return Ok(result);
            }
            sleep(OVERLOAD_PAUSE).await;
        }
    }

    /// Answers a request of the server.
    pub async fn answer(&mut self, request_id: &Value, result: Value) -> Result<()> {
        self.write(json!({ "id": request_id, "result": result }).to_string()).await
    }

    pub async fn start_thread(&mut self, cwd: &str) -> Result<Value> {
        Ok(self.call("thread/start", json!({ "cwd": cwd })).await?["thread"].take())
    }

    /// Runs a turn, which must complete.
    pub async fn turn(&mut self, thread: &str, prompt: &str) -> Result<()> {
        let id = self.post("turn/start", turn(thread, prompt)).await?;
        let end = self.until(|message| {
            if message.answers() == Some(id) {
                return message.result().err().map(Err);
            }
            let ended = message.is("turn/completed").then(|| message.params());
            ended.filter(|params| params["threadId"] == thread).map(|params| completed(&params))
        });
        end.await?
    }

    /// Reads messages until `look` returns a value.
    pub async fn until<T>(&mut self, mut look: impl FnMut(&Incoming<'_>) -> Option<T>) -> Result<T> {
        let mut line = Vec::new();
        loop {
            self.read(&mut line).await?;
            let message =
                serde_json::from_slice::<Incoming<'_>>(&line).context("the server does not write JSON")?;
            if let Some(found) = look(&message) {
                return Ok(found);
            }
        }
    }

    pub async fn write(&mut self, message: String) -> Result<()> {
        match self {
            Self::Stdio { to, .. } => to.write_all((message + "\n").as_bytes()).await?,
            Self::WebSocket { stream, .. } => stream.send(Message::text(message)).await?,
        }
        Ok(())
    }

    async fn read(&mut self, line: &mut Vec<u8>) -> Result<()> {
        line.clear();
        match self {
            Self::Stdio { from, .. } => {
                let length = timeout(MESSAGE_TIMEOUT, from.read_until(b'\n', line))
                    .await
                    .context("the server sends nothing")??;
                anyhow::ensure!(length > 0, "the server has ended");
            }
            Self::WebSocket { stream, .. } => {
                let message =
                    timeout(MESSAGE_TIMEOUT, stream.next()).await.context("the server sends nothing")?;
                line.extend_from_slice(
                    &message.context("the server has closed the connection")??.into_data(),
                );
            }
        }
        Ok(())
    }
}

/// Returns the params of `turn/start`.
pub fn turn(thread: &str, prompt: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": prompt }] })
}

/// Checks that the turn of a `turn/completed` was successful.
pub fn completed(params: &Value) -> Result<()> {
    let turn = &params["turn"];
    if turn["status"] != "completed" {
        bail!("the turn ended as {}: {}", turn["status"], turn["error"]);
    }
    Ok(())
}

/// Returns the text of a member, or an empty string.
pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}
