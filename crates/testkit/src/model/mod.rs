//! A model provider on loopback that does what a script says.

mod anthropic;
mod asked;
mod chat;
mod dialect;
mod follow;
mod gates;
mod http;
mod ids;
mod line;
mod log;
mod play;
mod recorded;
mod reply;
mod responses;
mod script;
mod state;
mod steps;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, task::JoinHandle, time::timeout};

pub use self::{follow::follow, recorded::RecordedRequest, reply::Reply, script::Script};

use self::state::ModelShared;

/// How long a test waits for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// Starts at a free port of 127.0.0.1.
    pub async fn start(script: impl Into<Script>) -> Self {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::bind(anywhere, script).await.expect("loopback has a free port")
    }

    /// Starts at a given address.
    pub async fn bind(address: SocketAddr, script: impl Into<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ModelShared::new(script.into()));
        let serving = tokio::spawn(http::serve(listener, shared.clone()));
        Ok(Self { address, shared, serving })
    }

    /// Where clients find it: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a reply, or the replies of a script, to the end of the queue. A script's `repeat` or
    /// `respond_with` takes the place of the present one.
    pub fn push(&self, script: impl Into<Script>) {
        self.shared.push(script.into());
    }

    /// Opens a gate, for good: replies that come to it later pass it without waiting.
    pub fn release(&self, gate: &str) {
        self.shared.gates.release(gate);
    }

    /// Waits until some reply has come to a gate (or to a `hold`), and panics if none does.
    pub async fn reached(&self, gate: &str) {
        self.wait(self.shared.gates.reached(gate), &format!("reply at gate {gate:?}")).await;
    }

    /// Waits until no request is being answered: each was answered to the end, or its client has gone.
    pub async fn until_idle(&self) {
        self.wait(self.shared.until_idle(), "end of the open answers").await;
    }

    /// The requests to the model so far. At most the last 1,000 and 128 MiB of bodies are kept.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.all()
    }

    /// All other requests, such as `GET …/models`, under the same limits.
    pub fn other_requests(&self) -> Vec<RecordedRequest> {
        self.shared.others.all()
    }

    /// The oldest request to the model that this has not given out yet. Waits for one, and panics when
    /// none comes.
    pub async fn next_request(&self) -> RecordedRequest {
        self.wait(self.shared.requests.take_next(), "request to the model").await
    }

    /// The replies of the queue that no request has taken yet.
    pub fn unused_replies(&self) -> Vec<Reply> {
        self.shared.unused()
    }

    /// Whether the script went as written: no reply is left, and no request went without one.
    pub fn is_finished(&self) -> bool {
        self.unused_replies().is_empty() && self.faults().is_empty()
    }

    /// What the script did not foresee: requests it had no reply for, bodies it could not read, panics in
    /// its closures. The first hundred are kept.
    pub fn faults(&self) -> Vec<String> {
        self.shared.faults()
    }

    async fn wait<T>(&self, event: impl Future<Output = T>, what: &str) -> T {
        match timeout(PATIENCE, event).await {
            Ok(value) => value,
            Err(_) => panic!("no {what} within {PATIENCE:?}; {self:?}"),
        }
    }
}

/// What a failing test needs to see.
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
