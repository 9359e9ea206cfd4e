//! The client itself: calls, notifications, events, and the end.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use codicil_protocol::{
    Frame, InitializeResponse, Method, NotificationMethod, ThreadId,
    rpc::{self, RequestId, codes},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    builder::ClientBuilder,
    error::{ClientError, Disconnected},
    events::EventStream,
    pending::{CallAnswer, CallFailure, WaitingCall},
    receive::fire,
    repair,
    shared::ClientShared,
};

/// A connection to a server. Clones are the same connection.
///
/// It ends when [`close`](Self::close) is called or the last clone is dropped. A spawned server is then given
/// [`ClientTimeouts::close`](crate::ClientTimeouts) to end by itself, and is killed with all that it started.
///
/// ```no_run
/// use codicil_client::{Client, ServerLaunch, turn};
///
/// # async fn example() -> Result<(), codicil_client::ClientError> {
/// let client = Client::builder().name("my-app", "1.0").connect(ServerLaunch::new("codicil")).await?;
/// let thread = client.start_thread(Default::default()).await?;
/// let done = client.run_turn(turn(&thread.id, "What is in this directory?")).await?;
/// println!("{}", done.agent_message);
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    shared: Arc<ClientShared>,
    outgoing: mpsc::Sender<Bytes>,
    options: ClientBuilder,
    server: OnceLock<InitializeResponse>,
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

impl Client {
    /// For everything that has a default; ends with [`ClientBuilder::connect`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(
        shared: Arc<ClientShared>,
        outgoing: mpsc::Sender<Bytes>,
        options: ClientBuilder,
    ) -> Self {
        Self { inner: Arc::new(ClientInner { shared, outgoing, options, server: OnceLock::new() }) }
    }

    /// Calls a method of the protocol. The request is posted before this returns, so calls reach the server in
    /// the order in which they were made; the future waits for the answer.
    ///
    /// A server that is overloaded is asked again; see [`RetryOptions`](crate::RetryOptions).
    ///
    /// ```no_run
    /// use codicil_client::{Client, ClientError, protocol::*};
    ///
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// let config = client.call::<ConfigRead>(Default::default()).await?;
    /// println!("model: {:?}", config.config.model);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<M: Method>(
        &self,
        params: M::Params,
    ) -> impl Future<Output = Result<M::Response, ClientError>> + Send + use<M> {
        self.call_within::<M>(params, self.inner.options.timeouts.request)
    }

    /// The same with a time of its own for the answer.
    pub fn call_within<M: Method>(
        &self,
        params: M::Params,
        within: Duration,
    ) -> impl Future<Output = Result<M::Response, ClientError>> + Send + use<M> {
        let encode = move |id: &RequestId| Frame::request::<M>(id, &params).bytes().clone();
        let answer = self.exchange(M::NAME.to_owned(), encode, within);
        async move { decode(M::NAME, &answer.await?) }
    }

    /// Calls a method that the protocol's table does not have.
    pub fn call_raw(
        &self,
        method: &str,
        params: Value,
    ) -> impl Future<Output = Result<Value, ClientError>> + Send + use<> {
        let name = method.to_owned();
        let encode = move |id: &RequestId| {
            let request = rpc::Request {
                id: id.clone(),
                method: name.clone(),
                params: Some(params.clone()),
                trace: None,
            };
            Bytes::from(serde_json::to_vec(&request).unwrap_or_default())
        };
        let method = method.to_owned();
        let answer = self.exchange(method.clone(), encode, self.inner.options.timeouts.request);
        async move { decode(&method, &answer.await?) }
    }

    /// Sends a notification, waiting while the server does not read.
    pub async fn notify<N: NotificationMethod>(&self, params: N::Params) -> Result<(), ClientError> {
        let message = Frame::notification::<N>(&params).bytes().clone();
        match self.inner.outgoing.send(message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(ClientError::PortExit(self.ended().await)),
        }
    }

    /// Every notification from now on. What happens when it is read too slowly is written at [`EventStream`].
    pub fn events(&self) -> EventStream {
        self.inner.shared.readers.add(None, &self.inner.shared.limits)
    }

    /// The notifications of one thread from now on.
    pub fn thread_events(&self, thread: &ThreadId) -> EventStream {
        self.inner.shared.readers.add(Some(thread.clone()), &self.inner.shared.limits)
    }

    /// What the server said of itself. Empty members are those that it left out.
    pub fn server(&self) -> Option<&InitializeResponse> {
        self.inner.server.get()
    }

    /// Whether the notifications of turns name their threads; `None` before the first has come. Where they do
    /// not, only one turn at a time can be followed.
    pub fn names_threads(&self) -> Option<bool> {
        self.inner.shared.naming.get()
    }

    /// Whether the connection is still there.
    pub fn is_connected(&self) -> bool {
        self.inner.shared.ended.get().is_none()
    }

    /// Waits for the connection to end, and tells how it did.
    pub async fn ended(&self) -> Arc<Disconnected> {
        self.inner.shared.ended.wait().await.clone()
    }

    /// Ends the connection for all clones, and waits until it has ended. Calls that wait get
    /// [`PortExit`](ClientError::PortExit).
    pub async fn close(self) -> Arc<Disconnected> {
        self.inner.shared.closing.cancel();
        self.ended().await
    }

    pub(crate) fn options(&self) -> &ClientBuilder {
        &self.inner.options
    }

    pub(crate) fn shared(&self) -> &Arc<ClientShared> {
        &self.inner.shared
    }

    pub(crate) fn set_server(&self, server: InitializeResponse) {
        // Only the handshake sets it.
        let _ = self.inner.server.set(server);
    }

    /// Sends a request whose answer does not matter, if the server reads.
    pub(crate) fn fire<M: Method>(&self, params: &M::Params) {
        fire::<M>(&self.inner.shared, &self.inner.outgoing, params);
    }

    fn exchange<E>(
        &self,
        method: String,
        encode: E,
        within: Duration,
    ) -> impl Future<Output = Result<Bytes, ClientError>> + Send + use<E>
    where
        E: Fn(&RequestId) -> Bytes + Send + 'static,
    {
        let client = self.clone();
        let began = Instant::now();
        let mut posted = self.post(&encode);
        async move {
            let deadline = began.checked_add(within).unwrap_or_else(|| began + FAR);
            let mut retries = 0;
            loop {
                let answer = timeout_at(deadline, posted.answer(&client)).await;
                let failure = match answer {
                    Ok(Ok(result)) => return Ok(result),
                    Ok(Err(failure)) => failure,
                    Err(_) => return Err(ClientError::ResponseTimeout { method, within }),
                };
                let error = match failure {
                    CallFailure::Ended(ended) => return Err(ClientError::PortExit(ended)),
                    CallFailure::Error(error) => error,
                };
                let pause = client.inner.options.retry.pause(retries);
                match pause
                    .filter(|pause| error.code == codes::OVERLOADED && Instant::now() + *pause < deadline)
                {
                    Some(pause) => sleep(pause).await,
                    None => return Err(ClientError::ResponseError { method, error }),
                }
                retries += 1;
                posted = client.post(&encode);
            }
        }
    }

    fn post(&self, encode: &impl Fn(&RequestId) -> Bytes) -> PostedRequest {
        let waiting = self.inner.shared.pending.open();
        let unsent = match self.inner.outgoing.try_send(encode(&waiting.id())) {
            // Closed: the connection is about to end, and the answer will say how.
            Ok(()) | Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(message)) => Some(message),
        };
        PostedRequest { waiting, unsent }
    }
}

/// A year: longer than any connection, and not too long for a clock.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A request that was sent, or waits for room to be.
struct PostedRequest {
    waiting: WaitingCall,
    unsent: Option<Bytes>,
}

impl PostedRequest {
    async fn answer(&mut self, client: &Client) -> CallAnswer {
        if let Some(message) = self.unsent.take() {
            // Fails when the connection is about to end; the answer says how.
            let _ = client.inner.outgoing.send(message).await;
        }
        self.waiting.answer().await
    }
}

/// Reads an answer; what a server left out of it is filled in where that is harmless.
fn decode<T: DeserializeOwned>(method: &str, raw: &Bytes) -> Result<T, ClientError> {
    let strict = serde_json::from_slice(raw);
    let error = match strict {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let repaired = repair::response(method, text).and_then(|value| serde_json::from_value(value).ok());
    let invalid = || ClientError::ResponseInvalid { method: method.to_owned(), reason: error.to_string() };
    repaired.ok_or_else(invalid)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("connected", &self.is_connected())
            .field("waiting_calls", &self.inner.shared.pending.count())
            .finish_non_exhaustive()
    }
}
