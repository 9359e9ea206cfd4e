//! A plain HTTP client that reads server-sent events one by one.

use bytes::Bytes;
use codicil_testkit::{ModelServer, Script};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::HeaderMap,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinSet};

pub const RESPONSES: &str = "/v1/responses";
pub const CHAT: &str = "/v1/chat/completions";
pub const MESSAGES: &str = "/v1/messages";
pub const DIALECTS: [&str; 3] = [RESPONSES, CHAT, MESSAGES];

/// One connection, closed when dropped.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinSet<()>,
}

/// A response whose body is read incrementally.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    read: String,
    /// The connection, if it was opened for this response only.
    connection: Option<JoinSet<()>>,
}

/// One server-sent event. `[DONE]` is a string.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub name: Option<String>,
    pub data: Value,
}

/// The stream ended without its proper end.
#[derive(Debug, PartialEq)]
pub struct Disconnected;

impl Client {
    pub async fn connect(server: &ModelServer) -> Self {
        let socket = TcpStream::connect(server.address()).await.unwrap();
        let (sender, running) = handshake(TokioIo::new(socket)).await.unwrap();
        let mut connection = JoinSet::new();
        connection.spawn(async move {
            let _ = running.await;
        });
        Self { sender, connection }
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, hyper::Error> {
        self.sender.ready().await?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            read: String::new(),
            connection: None,
        })
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Result<Answer, hyper::Error> {
        self.send(Request::post(path).body(body.to_string().into()).unwrap()).await
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(mut self) {
        self.connection.join_next().await.unwrap().unwrap();
    }
}

/// Requests a stream on a new connection.
pub async fn stream(server: &ModelServer, path: &str) -> Answer {
    post(server, path, json!({ "model": "m", "stream": true })).await
}

pub async fn post(server: &ModelServer, path: &str, body: Value) -> Answer {
    let mut client = Client::connect(server).await;
    let mut answer = client.post(path, body).await.unwrap();
    answer.connection = Some(client.connection);
    answer
}

/// Returns the events of a script with one reply.
pub async fn events(script: Script, path: &str) -> Vec<Event> {
    let server = ModelServer::start(script).await;
    let events = stream(&server, path).await.events().await.unwrap();
    assert!(server.is_finished(), "{server:?}");
    events
}

impl Answer {
    /// Returns the next event, or `None` at the proper end of the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, Disconnected> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let event = parse(event);
                self.read = rest.to_owned();
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    self.read.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap())
                }
                Some(Err(_)) => return Err(Disconnected),
                None => return Ok(None),
            }
        }
    }

    /// Reads events up to one that contains this text.
    pub async fn until_delta(&mut self, text: &str) {
        while let Some(event) = self.next().await.unwrap() {
            if event.data.to_string().contains(&json!(text).to_string()) {
                return;
            }
        }
        panic!("the stream ended without {text:?}");
    }

    /// Returns all events, and whether the stream ended properly.
    pub async fn all_events(mut self) -> (Vec<Event>, Result<(), Disconnected>) {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, Ok(())),
                Err(error) => return (events, Err(error)),
            }
        }
    }

    pub async fn events(self) -> Result<Vec<Event>, Disconnected> {
        let (events, end) = self.all_events().await;
        end.map(|()| events)
    }

    pub async fn text(self) -> String {
        let bytes = self.body.collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub async fn json(self) -> Value {
        serde_json::from_str(&self.text().await).unwrap()
    }
}

fn parse(event: &str) -> Event {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ").unwrap();
    Event {
        name: field("event: ").map(str::to_owned),
        data: serde_json::from_str(data).unwrap_or_else(|_| data.into()),
    }
}

impl Event {
    pub fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_default()
    }
}

/// Returns the types of events, with repetitions removed.
pub fn kinds(events: &[Event]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(Event::kind).collect();
    kinds.dedup();
    kinds
}

/// Joins the values of a field in all events of a type.
pub fn joined(events: &[Event], kind: &str, pointer: &str) -> String {
    let of_kind = events.iter().filter(|event| event.kind() == kind);
    of_kind.filter_map(|event| event.data.pointer(pointer)?.as_str()).collect()
}
