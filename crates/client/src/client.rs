//! The client handle: calls, notifications, event streams and closing.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use codicil_protocol::{Frame, InitializeResponse, Method, NotificationMethod, ThreadId, rpc::RequestId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    builder::ClientBuilder,
    error::{ClientError, Disconnected},
    events::EventStream,
    missing_fields,
    shared::ClientShared,
};

/// A connection to a server. Clones share the connection.
///
/// The connection ends when [`close`](Self::close) is called or the last clone is dropped. A spawned server then has
/// [`ClientTimeouts::close`](crate::ClientTimeouts::close) to exit. After that it is killed, with every process that
/// it started.
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
    options: ClientBuilder,
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

impl Client {
    /// Returns a builder with the default options; [`ClientBuilder::connect`] connects it.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn new(shared: Arc<ClientShared>, options: ClientBuilder) -> Self {
        Self { inner: Arc::new(ClientInner { shared, options }) }
    }

    /// Calls a method of the protocol. The request is queued before this function returns, so requests reach the
    /// server in the order of the calls. The returned future waits for the response.
    ///
    /// A request that the server refuses as overload is repeated; see [`RetryOptions`](crate::RetryOptions).
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

    /// Calls a method with its own timeout in place of [`ClientTimeouts::request`](crate::ClientTimeouts::request).
    pub fn call_within<M: Method>(
        &self,
        params: M::Params,
        within: Duration,
    ) -> impl Future<Output = Result<M::Response, ClientError>> + Send + use<M> {
        let key = self.new_key(M::NAME);
        let is_keyed = key.is_some();
        let encode = move |id: &RequestId| match &key {
            Some(key) => Frame::keyed_request::<M>(id, &params, key).bytes().clone(),
            None => Frame::request::<M>(id, &params).bytes().clone(),
        };
        let answer = self.exchange(M::NAME.to_owned(), encode, is_keyed, within);
        async move { decode(M::NAME, &answer.await?) }
    }

    /// Calls a method that is not in the protocol's method table.
    pub fn call_raw(
        &self,
        method: &str,
        params: Value,
    ) -> impl Future<Output = Result<Value, ClientError>> + Send + use<> {
        let key = self.new_key(method);
        let is_keyed = key.is_some();
        let name = method.to_owned();
        let encode = move |id: &RequestId| {
            let request = match &key {
                Some(key) => {
                    json!({ "id": id, "method": name, "params": params, "codicil": { "key": key } })
                }
                None => json!({ "id": id, "method": name, "params": params }),
            };
            Bytes::from(request.to_string())
        };
        let method = method.to_owned();
        let within = self.inner.options.timeouts.request;
        let answer = self.exchange(method.clone(), encode, is_keyed, within);
        async move { decode(&method, &answer.await?) }
    }

    /// Sends a notification. Waits while the outgoing queue is full.
    pub async fn notify<N: NotificationMethod>(&self, params: N::Params) -> Result<(), ClientError> {
        let message = Frame::notification::<N>(&params).bytes().clone();
        match self.inner.shared.first.outgoing.send(message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(ClientError::Disconnected(self.disconnected().await)),
        }
    }

    /// Returns a stream of all notifications from now on. [`EventStream`] describes what happens to a slow reader.
    pub fn events(&self) -> EventStream {
        self.inner.shared.readers.add(None, self.inner.shared.new_queue())
    }

    /// Returns a stream of one thread's notifications from now on.
    pub fn thread_events(&self, thread: &ThreadId) -> EventStream {
        self.inner.shared.readers.add(Some(thread.clone()), self.inner.shared.new_queue())
    }

    /// Returns the response to `initialize`; `None` before the handshake. Fields that the server left out are empty.
    pub fn server(&self) -> Option<&InitializeResponse> {
        self.inner.shared.server.get()
    }

    /// Returns whether turn and item notifications name their threads; `None` before the first one arrives. If they do
    /// not, only one turn can be followed at a time.
    pub fn names_threads(&self) -> Option<bool> {
        self.inner.shared.naming.get()
    }

    /// Returns the number of connections to the server so far, to be watched. It grows when a client that
    /// [reconnects](ClientBuilder::resilient) has done so; other clients have one connection.
    pub fn connections(&self) -> watch::Receiver<u64> {
        match self.inner.shared.resilience() {
            Some(resilience) => resilience.connections.subscribe(),
            None => watch::Sender::new(1).subscribe(),
        }
    }

    /// Returns whether the connection is open. A client that reconnects is connected until it gives up.
    pub fn is_connected(&self) -> bool {
        self.inner.shared.disconnected.get().is_none()
    }

    /// Waits for the connection to end and returns how it ended.
    pub async fn disconnected(&self) -> Arc<Disconnected> {
        self.inner.shared.disconnected.wait().await.clone()
    }

    /// Closes the connection for all clones and waits until it has ended. Pending calls fail with
    /// [`ClientError::Disconnected`].
    pub async fn close(self) -> Arc<Disconnected> {
        self.inner.shared.closing.cancel();
        self.disconnected().await
    }

    /// Returns whether this client opens its connection again by itself.
    pub(crate) fn reconnects(&self) -> bool {
        self.inner.shared.resilience().is_some()
    }

    pub(crate) fn options(&self) -> &ClientBuilder {
        &self.inner.options
    }

    pub(crate) fn shared(&self) -> &Arc<ClientShared> {
        &self.inner.shared
    }

    pub(crate) fn set_server(&self, server: InitializeResponse) {
        // The server refuses a second handshake, so the first response stays.
        let _ = self.inner.shared.server.set(server);
    }
}

/// Decodes a response. If that fails, fills in fields that some servers leave out and tries again.
fn decode<T: DeserializeOwned>(method: &str, raw: &Bytes) -> Result<T, ClientError> {
    let error = match serde_json::from_slice(raw) {
        Ok(response) => return Ok(response),
        Err(error) => error,
    };
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let completed =
        missing_fields::response(method, text).and_then(|value| serde_json::from_value(value).ok());
    let invalid = || ClientError::ResponseInvalid { method: method.to_owned(), reason: error.to_string() };
    completed.ok_or_else(invalid)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("connected", &self.is_connected())
            .field("waiting_calls", &self.inner.shared.pending.count())
            .finish_non_exhaustive()
    }
}
