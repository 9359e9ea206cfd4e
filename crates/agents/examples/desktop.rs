//! Serves a desktop with three windows in a browser. Each window is an agent of one pool; what an agent asks becomes a
//! dialog in its window. The session layer of the console protects the pages. Runs offline with a scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-agents --example desktop -- target/debug/codicil
//! ```
//!
//! The way of an approval: the server asks the pool, the pool adds an `approval_request` to the reply, the browser receives it as
//! an event and opens a dialog, the dialog posts the decision, and `Pool::decide` answers the server.

use std::{collections::VecDeque, convert::Infallible, error::Error, fs, path::Path, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use codicil_agents::{
    client::ApprovalDecision,
    pool::{Agent, Pool, PoolSettings, QuestionId, ServerCommand},
};
use codicil_console::{FormFields, Session, SessionKey, SessionLayer, SignIn};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::watch};

const PAGE: &str = include_str!("desktop/desktop.html");
const SCRIPT: &str = include_str!("desktop/desktop.js");
const STYLE: &str = include_str!("desktop/desktop.css");

const WINDOWS: [&str; 3] = ["Notes", "Mail", "Calendar"];

/// What the model says: it saves the time, which needs an approval, and reports what became of it.
const MODEL_SCRIPT: &str = r#"
[[reply]]
when = { user = "save", step = 0 }
steps = [{ say = "I will save that." }, { run = "date >> saved.txt && wc -l < saved.txt" }]

[[reply]]
when = { user = "save", output = "rejected" }
steps = [{ say = "Then I leave it." }]

[[reply]]
when = { user = "save", step = 1 }
steps = [{ say = "Saved." }]

[[reply]]
when = {}
steps = [{ say = "You said: {user}" }]
"#;

/// Messages that a window keeps for browsers that connect later.
const KEPT_MESSAGES: usize = 5_000;

/// A window: its agent, and what it has shown last, as JSON.
struct Window {
    agent: Agent,
    log: Mutex<VecDeque<String>>,
    /// The number of messages so far.
    count: watch::Sender<usize>,
}

impl Window {
    fn show(&self, message: String) {
        let mut log = self.log.lock();
        if log.len() == KEPT_MESSAGES {
            log.pop_front();
        }
        log.push_back(message);
        self.count.send_modify(|count| *count += 1);
    }

    /// Waits for the message with this number. Returns it, or the oldest one that is kept, with its number.
    async fn message(&self, number: usize) -> Option<(usize, String)> {
        let mut count = self.count.subscribe();
        count.wait_for(|count| *count > number).await.ok()?;
        let log = self.log.lock();
        let first = *self.count.borrow() - log.len();
        let number = number.max(first);
        Some((number, log.get(number - first)?.clone()))
    }
}

#[derive(Clone)]
struct Desktop {
    pool: Pool,
    windows: Arc<Vec<Arc<Window>>>,
}

async fn page(Extension(session): Extension<Session>) -> Response {
    let page = PAGE.replace("{csrf}", session.csrf()).replace("{windows}", &WINDOWS.join(","));
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

async fn file(UrlPath(name): UrlPath<String>) -> Response {
    match name.as_str() {
        "desktop.js" => ([(header::CONTENT_TYPE, "text/javascript")], SCRIPT).into_response(),
        "desktop.css" => ([(header::CONTENT_TYPE, "text/css")], STYLE).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The messages of a window as server-sent events. The id is the number of the message, so a browser that connects again
/// continues where it was.
async fn events(
    State(desktop): State<Desktop>,
    UrlPath(window): UrlPath<usize>,
    headers: HeaderMap,
) -> Response {
    let Some(window) = desktop.windows.get(window).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<usize>().ok());
    let next = last.map_or(0, |last| last + 1);
    let messages = stream::unfold((window, next), |(window, number)| async move {
        let (number, message) = window.message(number).await?;
        let event = format!("id: {number}\ndata: {message}\n\n");
        Some((Ok::<_, Infallible>(event), (window, number + 1)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(messages)).into_response()
}

/// Sends a message to the agent of a window.
async fn send(
    State(desktop): State<Desktop>,
    UrlPath(window): UrlPath<usize>,
    Extension(fields): Extension<FormFields>,
) -> StatusCode {
    let (Some(window), Some(text)) = (desktop.windows.get(window).cloned(), fields.get("text")) else {
        return StatusCode::BAD_REQUEST;
    };
    window.show(json!({ "type": "user", "text": text }).to_string());
    let mut reply = window.agent.ask(text);
    // Ends with the reply, and the reply with the pool.
    tokio::spawn(async move {
        while let Some(message) = reply.next().await {
            window.show(serde_json::to_string(&message).unwrap_or_default());
        }
    });
    StatusCode::NO_CONTENT
}

/// Answers a question that a dialog has shown.
async fn decide(
    State(desktop): State<Desktop>,
    UrlPath(question): UrlPath<u64>,
    Extension(fields): Extension<FormFields>,
) -> (StatusCode, String) {
    let decision = match fields.get("decision") {
        Some("accept") => ApprovalDecision::Accept,
        Some("acceptForSession") => ApprovalDecision::AcceptForSession,
        _ => ApprovalDecision::Decline,
    };
    match desktop.pool.decide(QuestionId(question), decision) {
        Ok(()) => (StatusCode::NO_CONTENT, String::new()),
        Err(error) => (StatusCode::CONFLICT, error.to_string()),
    }
}

async fn start_pool(program: String, home: &Path) -> Result<Pool, Box<dyn Error>> {
    let script = home.join("script.toml");
    fs::write(&script, MODEL_SCRIPT)?;
    let provider = |key: &str, value: &str| (format!("model_providers.desktop.{key}"), value.to_owned());
    let command = ServerCommand {
        approval_policy: Some("untrusted".to_owned()),
        settings: vec![
            ("model_provider".to_owned(), "desktop".to_owned()),
            provider("name", "desktop"),
            provider("wire_api", "scripted"),
            provider("script", &script.display().to_string()),
        ],
        home: Some(home.to_owned()),
        ..ServerCommand::new(program)
    };
    let instructions = "You are a window of a desktop: brief and helpful.".to_owned();
    let settings = PoolSettings { instructions, warm_threads: 3, ..PoolSettings::new(command.launch()) };
    Ok(Pool::start(settings).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let home = TempDir::new()?;
    let pool = start_pool(program, home.path()).await?;
    let mut windows = Vec::new();
    for _ in WINDOWS {
        let agent = pool.agent().await?;
        windows.push(Arc::new(Window { agent, log: Mutex::default(), count: watch::Sender::new(0) }));
    }
    let desktop = Desktop { pool: pool.clone(), windows: Arc::new(windows) };

    let routes = Router::new()
        .route("/", get(page))
        .route("/files/{name}", get(file))
        .route("/windows/{window}/events", get(events))
        .route("/windows/{window}/messages", post(send))
        .route("/questions/{question}", post(decide))
        .with_state(desktop);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let sessions = SessionLayer::new(SessionKey::random()?, SignIn::Links, listener.local_addr()?);
    println!("The desktop is at {}", sessions.sign_in_link()?);
    tokio::select! {
        served = axum::serve(listener, sessions.protect(routes)) => served?,
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    pool.close().await;
    Ok(())
}
