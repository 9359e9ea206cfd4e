//! A provider on loopback that responds with the bytes that a test specifies.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

/// A response: its bytes, and what follows them.
#[derive(Clone, Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    /// Bytes that follow, each after a pause.
    later: Vec<(Duration, Vec<u8>)>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    KeepOpen,
    Close,
    /// Sends nothing more until the client disconnects.
    Hang,
}

impl Answer {
    /// A stream of server-sent events that ends with the connection.
    pub fn sse(events: impl IntoIterator<Item = Value>) -> Self {
        Self::stream(&[], &events.into_iter().map(|event| named(&event)).collect::<String>())
    }

    /// A stream with the given text.
    pub fn stream(headers: &[(&str, &str)], text: &str) -> Self {
        let mut head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n".to_owned();
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self {
            bytes: format!("{head}connection: close\r\n\r\n{text}").into_bytes(),
            later: Vec::new(),
            end: End::Close,
        }
    }

    /// A stream with a content length, after which the connection can be reused.
    pub fn sse_kept_alive(events: impl IntoIterator<Item = Value>) -> Self {
        let text: String = events.into_iter().map(|event| named(&event)).collect();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        let bytes = format!("{head}content-length: {}\r\n\r\n{text}", text.len()).into_bytes();
        Self { bytes, later: Vec::new(), end: End::KeepOpen }
    }

    /// A plain response.
    pub fn status(code: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head = format!("HTTP/1.1 {code} Whatever\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self { bytes: format!("{head}\r\n{body}").into_bytes(), later: Vec::new(), end: End::KeepOpen }
    }

    /// Closes the connection after reading the request.
    pub fn hang_up() -> Self {
        Self { bytes: Vec::new(), later: Vec::new(), end: End::Close }
    }

    /// Reads the request and never responds.
    pub fn silence() -> Self {
        Self { bytes: Vec::new(), later: Vec::new(), end: End::Hang }
    }

    /// Sends more text after a pause.
    pub fn then_after(mut self, pause: Duration, text: &str) -> Self {
        self.later.push((pause, text.as_bytes().to_vec()));
        self
    }

    pub fn then_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }
}

fn named(event: &Value) -> String {
    match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
    /// Number of the connection, counted from 1.
    pub connection: usize,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

pub struct Server {
    pub base_url: String,
    received: Arc<Mutex<Vec<Received>>>,
    gone: mpsc::UnboundedReceiver<()>,
    serving: JoinHandle<()>,
}

impl Server {
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let (gone_sender, gone) = mpsc::unbounded_channel();
        let shared = Shared {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            received: received.clone(),
            gone_sender,
        };
        let serving = tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((socket, _)) = listener.accept().await {
                connection += 1;
                tokio::spawn(serve(socket, shared.clone(), connection));
            }
        });
        Self { base_url, received, gone, serving }
    }

    pub fn requests(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    /// Waits until a client disconnects from a response that hangs.
    pub async fn client_left(&mut self) {
        tokio::time::timeout(Duration::from_secs(10), self.gone.recv()).await.unwrap().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
struct Shared {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    received: Arc<Mutex<Vec<Received>>>,
    gone_sender: mpsc::UnboundedSender<()>,
}

async fn serve(mut socket: TcpStream, shared: Shared, connection: usize) {
    while let Some(request) = read_request(&mut socket, connection).await {
        shared.received.lock().push(request);
        let answer = shared.answers.lock().pop_front();
        let answer = answer.unwrap_or_else(|| Answer::status(500, &[], "no answer left"));
        if socket.write_all(&answer.bytes).await.is_err() {
            return;
        }
        for (pause, bytes) in answer.later {
            tokio::time::sleep(pause).await;
            if socket.write_all(&bytes).await.is_err() {
                return;
            }
        }
        match answer.end {
            End::KeepOpen => {}
            End::Close => return,
            End::Hang => {
                let mut rest = Vec::new();
                let _ = socket.read_to_end(&mut rest).await;
                let _ = shared.gone_sender.send(());
                return;
            }
        }
    }
}

async fn read_request(socket: &mut TcpStream, connection: usize) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { path, headers, body, connection })
}
