//! A stand-in for the ChatGPT backend: HTTP on loopback, one answer a connection.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Received {
    /// Without its query.
    pub path: String,
    pub query: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
}

type Respond = dyn Fn(&Received) -> (u16, String) + Send + Sync;

pub struct Backend {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
    respond: Arc<Mutex<Arc<Respond>>>,
    task: JoinHandle<()>,
}

impl Backend {
    pub async fn start(respond: impl Fn(&Received) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/backend-api", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let respond: Arc<Mutex<Arc<Respond>>> = Arc::new(Mutex::new(Arc::new(respond)));
        let log = received.clone();
        let answers = respond.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &log, &answers).await;
            }
        });
        Self { address, received, respond, task }
    }

    /// The value of `chatgpt_base_url`.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    pub fn answer_with(&self, respond: impl Fn(&Received) -> (u16, String) + Send + Sync + 'static) {
        *self.respond.lock() = Arc::new(respond);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A directory of two apps, one of which the account is connected to.
pub fn two_apps(request: &Received) -> (u16, String) {
    let apps = json!([
        { "id": "demo-app", "name": "Demo App", "description": "Example", "logo_url": "https://example.com/l.png" },
        { "id": "other", "name": "Other Thing", "description": "O" },
        { "id": "secret", "name": "Secret", "visibility": "HIDDEN" },
        { "id": 5 },
    ]);
    match request.path.as_str() {
        "/backend-api/connectors/directory/list" => {
            (200, json!({ "apps": apps, "nextToken": null }).to_string())
        }
        "/backend-api/wham/apps" => mcp(request),
        _ => (404, String::new()),
    }
}

fn mcp(request: &Received) -> (u16, String) {
    let result = match request.body["method"].as_str() {
        Some("initialize") => json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "apps", "version": "1" } }),
        Some("tools/list") => {
            let tool = |name: &str, meta: Value| json!({ "name": name, "inputSchema": {}, "_meta": meta });
            let meta = json!({ "connector_id": "demo-app", "connector_name": "Demo App" });
            let placeholder = json!({ "connector_id": "other", "_codex_apps": { "synthetic_link": true } });
            json!({ "tools": [tool("a", meta.clone()), tool("b", meta), tool("c", placeholder), tool("d", json!({}))] })
        }
        _ => return (202, String::new()),
    };
    (200, json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }).to_string())
}

async fn serve(stream: TcpStream, log: &Mutex<Vec<Received>>, respond: &Mutex<Arc<Respond>>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read(&mut stream).await else { return };
    log.lock().push(request.clone());
    let respond = respond.lock().clone();
    let (status, body) = respond(&request);
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Received { path: path.to_owned(), query: query.to_owned(), headers, body })
}
