//! A model provider on loopback that answers as a script says.
//!
//! This is the scripted model for tests: a [`Script`] is built in Rust, has closures and gates, and controls
//! single deltas and HTTP details, which `ModelServer` encodes in three dialects. Its sibling is the scripted
//! provider inside `codicil-model`, which plays script files without HTTP and ships with the binary. Script
//! files have one implementation, there: `script_file` only translates what that returns into a [`Reply`], so
//! the two share the format, the conditions and the playing. The builder does not go through script files,
//! because they have no words for most of its steps.

mod anthropic;
mod chat;
mod cuttable_socket;
mod dialect;
mod http;
mod log;
mod play;
mod recorded;
mod reply;
mod responses;
mod script;
mod script_file;
mod script_request;
mod state;
mod steps;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};

pub use self::{recorded::RecordedRequest, reply::Reply, script::Script, script_file::script_file_replies};

use self::state::ModelShared;

/// Maximum time to wait for an event of a test.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A scripted model provider.
///
/// It speaks three dialects of the same script, chosen by the path of the request: `…/responses` (OpenAI
/// Responses), `…/chat/completions` and `…/messages` (Anthropic), each as a stream or, when the request
/// does not ask for one, as a single JSON answer. `GET …/models` lists one model.
///
/// Dropping it closes the port and every connection.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ModelShared>,
    serving: JoinHandle<()>,
}

impl ModelServer {
    /// Listens on a free port of 127.0.0.1.
    pub async fn start(script: impl Into<Script>) -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::bind(anywhere, script).await.expect("loopback has a free port")
    }

    /// Listens on an address.
    pub async fn bind(address: SocketAddr, script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ModelShared::new(script.into()));
        let serving = tokio::spawn(http::serve(listener, shared.clone()));
        Ok(Self { address, shared, serving })
    }

    /// Returns the base URL for clients: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a reply, or the replies of a script, to the end of the queue. A script's `repeat` or
    /// `respond_with` replaces the current one.
    pub fn push(&self, script: impl Into<Script>) {
        self.shared.push(script.into());
    }

    /// Answers requests for a path that is not for the model, such as `/v1/models` or `/props`, with this JSON.
    pub fn serve_json(&self, path: &str, answer: Value) {
        self.shared.pages.lock().insert(path.to_owned(), answer);
    }

    /// Opens a gate permanently: replies that reach it later pass without waiting.
    pub fn release(&self, gate: &str) {
        self.shared.gates.release(gate);
    }

    /// Waits until a reply has reached a gate (or a `hold`). Panics if none does.
    pub async fn reached(&self, gate: &str) {
        self.wait(self.shared.gates.reached(gate), &format!("reply at gate {gate:?}")).await;
    }

    /// Waits until no request is being answered: each was answered completely, or its client has
    /// disconnected.
    pub async fn until_idle(&self) {
        self.wait(self.shared.until_idle(), "end of the open answers").await;
    }

    /// Returns the requests to the model so far. At most the last 1,000 and 128 MiB of bodies are kept.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.all()
    }

    /// Returns all other requests, such as `GET …/models`, under the same limits.
    pub fn other_requests(&self) -> Vec<RecordedRequest> {
        self.shared.others.all()
    }

    /// Returns the oldest request to the model that this method has not returned yet. Waits for one, and
    /// panics if none comes.
    pub async fn next_request(&self) -> RecordedRequest {
        self.wait(self.shared.requests.take_next(), "request to the model").await
    }

    /// Returns the replies of the queue that no request has taken yet.
    pub fn unused_replies(&self) -> Vec<Reply> {
        self.shared.unused()
    }

    /// Returns whether the script was played completely: no reply is unused, and no request had no reply.
    pub fn is_finished(&self) -> bool {
        self.unused_replies().is_empty() && self.faults().is_empty()
    }

    /// Returns what the script did not provide for: requests without a reply, invalid bodies, panics in
    /// closures. The first hundred are kept.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults()
    }

    async fn wait<T>(&self, event: impl Future<Output = T>, what: &str) -> T {
        match timeout(MAX_WAIT, event).await {
            Ok(value) => value,
            Err(_) => panic!("no {what} within {MAX_WAIT:?}; {self:?}"),
        }
    }
}

/// Shows what a failing test needs.
impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer")
            .field("requests", &self.shared.requests.count())
            .field("unused_replies", &self.unused_replies().len())
            .field("faults", &self.faults())
            .finish_non_exhaustive()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
