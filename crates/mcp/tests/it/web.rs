//! A web server on loopback with a handler of the test, and a browser.

use std::{collections::HashMap, convert::Infallible, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: HashMap<String, String>,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Seen {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn form(&self) -> HashMap<String, String> {
        pairs(&self.body)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Body,
}

pub enum Body {
    Text(String),
    /// Each text is sent unchanged; the stream ends with the sender.
    Stream(mpsc::UnboundedReceiver<String>),
}

impl Reply {
    pub fn status(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Body::Text(String::new()) }
    }

    pub fn json(value: &Value) -> Reply {
        let headers = vec![("content-type", "application/json".to_owned())];
        Reply { status: 200, headers, body: Body::Text(value.to_string()) }
    }

    /// A stream of events, with its sender.
    pub fn events() -> (Reply, Events) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        (Reply { status: 200, headers, body: Body::Stream(receiver) }, Events(sender))
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }
}

pub struct Events(mpsc::UnboundedSender<String>);

impl Events {
    pub fn send(&self, message: &Value) {
        let _ = self.0.send(format!("event: message\ndata: {message}\n\n"));
    }
}

pub type Handler = Arc<dyn Fn(Seen) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

pub struct Web {
    pub base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _task: AbortOnDropHandle<()>,
}

impl Web {
    /// Serves the handler that `make` returns for the server's own URL.
    pub async fn start(make: impl FnOnce(String) -> Handler) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let handler = make(base.clone());
        let task = tokio::spawn(accept(listener, handler, seen.clone()));
        Web { base, seen, _task: AbortOnDropHandle::new(task) }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    pub fn count(&self, method: &str, path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == method && seen.path == path).count()
    }
}

async fn accept(listener: TcpListener, handler: Handler, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let handler = handler.clone();
        let seen = seen.clone();
        let service = service_fn(move |request| {
            let handler = handler.clone();
            let seen = seen.clone();
            async move {
                let request = read(request).await;
                seen.lock().push(request.clone());
                Ok::<_, Infallible>(respond(handler(request).await))
            }
        });
        connections.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn read(request: Request<Incoming>) -> Seen {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let headers = parts.headers.iter();
    Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: pairs(parts.uri.query().unwrap_or_default()),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

fn respond(reply: Reply) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let body = match reply.body {
        Body::Text(text) => Full::from(text).boxed_unsync(),
        Body::Stream(receiver) => {
            let texts =
                stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
            StreamBody::new(texts.map(|text| Ok(Frame::data(Bytes::from(text))))).boxed_unsync()
        }
    };
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(body).unwrap()
}

fn pairs(text: &str) -> HashMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Requests a page as a browser. Returns the status, the redirect and the page.
pub async fn browse(address: &str) -> (u16, Option<String>, String) {
    let url: Url = address.parse().unwrap();
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(&host).await.unwrap();
    let target = &url[url::Position::BeforePath..];
    let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let location = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.to_owned())
    });
    (status, location, page.to_owned())
}
