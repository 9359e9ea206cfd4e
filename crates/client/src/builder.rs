//! The builder: options of a client, and the ways to connect it.

use std::{fmt, sync::Arc, time::Duration};

use codicil_protocol::{
    CODICIL_VERSION, ClientInfo, CodicilCapabilities, Initialize, InitializeCapabilities, InitializeParams,
    Initialized, PROTOCOL_EXTENSION, ProtocolGeneration,
};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    connection,
    connection_state::ConnectionState,
    endpoint::{Endpoint, EndpointKind, ServerAddress},
    error::ClientError,
    events::EventStream,
    handler::{AnyHandler, RequestHandler},
    nodes::ThreadNodes,
    options::{ClientLimits, ClientTimeouts, RetryOptions, ThreadDefaults},
    policies::DeclineAll,
    receiver::MessageReceiver,
    reconnect::ConnectionRecovery,
    resilient::{ReconnectOptions, Resilience},
    responder::RequestResponder,
    shared::ClientShared,
    tools::ClientTools,
    transport,
};

/// Options of a [`Client`], set before it connects. All have defaults.
///
/// ```no_run
/// use std::time::Duration;
///
/// use codicil_client::{ApproveAll, Client, ServerLaunch};
///
/// # async fn example() -> Result<(), codicil_client::ClientError> {
/// let builder = Client::builder()
///     .name("my-app", "1.0")
///     .handler(ApproveAll::once())
///     .turn_timeout(Some(Duration::from_secs(60)))
///     .opt_out(["item/reasoning/textDelta"]);
/// let client = builder.connect(ServerLaunch::new("codicil")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientBuilder {
    pub(crate) info: ClientInfo,
    pub(crate) capabilities: InitializeCapabilities,
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) tools: Arc<ClientTools>,
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) limits: ClientLimits,
    pub(crate) retry: RetryOptions,
    pub(crate) thread_defaults: ThreadDefaults,
    pub(crate) reconnect: Option<ReconnectOptions>,
    /// Whether a server without the extension `codicil` is refused.
    pub(crate) needs_extension: bool,
    /// Whether the server runs on this machine, so that paths mean the same to both sides.
    pub(crate) is_local: bool,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            info: ClientInfo { name: "codicil-client".to_owned(), title: None, version },
            capabilities: InitializeCapabilities { experimental_api: true, ..Default::default() },
            handler: Arc::new(DeclineAll),
            tools: Arc::default(),
            timeouts: ClientTimeouts::default(),
            limits: ClientLimits::default(),
            retry: RetryOptions::default(),
            thread_defaults: ThreadDefaults::default(),
            reconnect: None,
            needs_extension: false,
            is_local: true,
        }
    }
}

impl ClientBuilder {
    /// Returns the defaults of the TypeScript client's specification: the name `openclaw` 0.1.0, and
    /// [`ThreadDefaults::openclaw`]. Its other defaults are those of every client.
    pub fn openclaw() -> Self {
        Self::default().name("openclaw", "0.1.0").thread_defaults(ThreadDefaults::openclaw())
    }

    /// Sets the name and version in `clientInfo`. The server passes them on to model providers.
    pub fn name(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info.name = name.into();
        self.info.version = version.into();
        self
    }

    /// Sets the display name in `clientInfo`.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Restricts the connection to the stable protocol. By default the client opts in to experimental methods and
    /// fields.
    pub fn stable_only(mut self) -> Self {
        self.capabilities.experimental_api = false;
        self
    }

    /// Chooses the generation of the protocol, on a server that serves several. Other servers ignore the choice.
    pub fn protocol(mut self, generation: ProtocolGeneration) -> Self {
        let choice = json!({ "protocolVersion": generation.version() });
        self.capabilities.extensions.get_or_insert_default().insert(PROTOCOL_EXTENSION.to_owned(), choice);
        self
    }

    /// Asks the server not to send these notifications, given by their exact method names.
    pub fn opt_out<'m>(mut self, methods: impl IntoIterator<Item = &'m str>) -> Self {
        let names = self.capabilities.opt_out_notification_methods.get_or_insert_default();
        names.extend(methods.into_iter().map(str::to_owned));
        self
    }

    /// Sets the handler that answers server requests; [`DeclineAll`] by default.
    pub fn handler(mut self, handler: impl RequestHandler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Sets the tools that this client runs for the model.
    pub fn tools(mut self, tools: ClientTools) -> Self {
        self.tools = Arc::new(tools);
        self
    }

    /// Sets all timeouts.
    pub fn timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how long a request may take, from the call to the response.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.request = timeout;
        self
    }

    /// Sets how long a whole turn may take; `None` for no limit.
    pub fn turn_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeouts.turn = timeout;
        self
    }

    /// Sets the sizes of buffers and queues.
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how requests are repeated that an overloaded server refused.
    pub fn retry(mut self, retry: RetryOptions) -> Self {
        self.retry = retry;
        self
    }

    /// Sets what [`Client::start_thread`] fills in where its params leave something out.
    pub fn thread_defaults(mut self, defaults: ThreadDefaults) -> Self {
        self.thread_defaults = defaults;
        self
    }

    /// Keeps the client alive over lost connections and crashed servers. Needs a server with the extension `codicil`.
    ///
    /// When the connection ends, it is opened again: over a websocket or unix socket, or with a new process. Event streams
    /// and collected turns continue without loss or repetition, requests that change something are sent again with their
    /// keys and have one effect, and open server requests are answered once. Other pending calls fail with
    /// [`ClientError::Disconnected`].
    pub fn resilient(self, options: ReconnectOptions) -> Self {
        Self { needs_extension: true, ..self.resilient_if_supported(options) }
    }

    /// Does the same if the server has the extension. The connection to another server ends like that of any client.
    pub(crate) fn resilient_if_supported(mut self, options: ReconnectOptions) -> Self {
        self.capabilities.codicil =
            Some(CodicilCapabilities { version: CODICIL_VERSION, cursor: true, ..Default::default() });
        self.reconnect = Some(options);
        self
    }

    /// Opens the connection and performs the handshake. Must be called within a tokio runtime, on which the connection
    /// then runs.
    pub async fn connect(self, endpoint: impl Into<Endpoint>) -> Result<Client, ClientError> {
        let client = self.open(endpoint).await?;
        client.initialize().await?;
        Ok(client)
    }

    /// Connects like [`connect`](Self::connect), with a stream of all notifications. Some servers send notifications
    /// right after the handshake; this stream includes them.
    pub async fn connect_with_events(
        self,
        endpoint: impl Into<Endpoint>,
    ) -> Result<(Client, EventStream), ClientError> {
        let client = self.open(endpoint).await?;
        let events = client.events();
        client.initialize().await?;
        Ok((client, events))
    }

    /// Opens the connection without the handshake. Before [`Client::initialize`], the server answers no other
    /// request.
    ///
    /// A caller that opens the connection itself can [close](Client::close) it when the handshake fails, and learns
    /// what the server wrote to standard error.
    pub async fn open(mut self, endpoint: impl Into<Endpoint>) -> Result<Client, ClientError> {
        let endpoint = endpoint.into();
        let socket = match &endpoint.0 {
            EndpointKind::Address(ServerAddress::WebSocket(socket)) => Some(socket.clone()),
            _ => None,
        };
        self.is_local = socket.is_none();
        if let Some(codicil) = &mut self.capabilities.codicil {
            // Other nodes take the credentials of a websocket. They are not known for other endpoints.
            codicil.redirect = socket.is_some();
        }
        let (outgoing, posted) = mpsc::channel(self.limits.outgoing.max(1));
        let first = Arc::new(ConnectionState::first(outgoing, CancellationToken::new()));
        let recovery = self.recovery(&endpoint, ThreadNodes::new(first.clone(), self.clone(), socket))?;
        let within = self.timeouts.connect;
        let opening = timeout(within, transport::open(endpoint, &self.limits)).await;
        let timed_out = || ClientError::ResponseTimeout { method: "connect".to_owned(), within };
        let link = opening.map_err(|_| timed_out())??;
        let resilience = recovery.as_ref().map(|recovery| recovery.state.clone());
        let shared = Arc::new(ClientShared::new(self.limits.clone(), first.clone(), resilience));
        let responder = RequestResponder::new(&self, shared.clone());
        let receiver = MessageReceiver::new(shared.clone(), first, responder);
        // Not joined: the task ends within `timeouts.close` after the last handle of the client is dropped.
        tokio::spawn(connection::run(link, posted, receiver, self.timeouts.close, recovery));
        Ok(Client::new(shared, self))
    }

    /// Returns how the connection is opened again, if it is.
    fn recovery(
        &self,
        endpoint: &Endpoint,
        nodes: ThreadNodes,
    ) -> Result<Option<ConnectionRecovery>, ClientError> {
        if self.reconnect.is_none() {
            return Ok(None);
        }
        let EndpointKind::Address(address) = &endpoint.0 else {
            let reason = "a client that reconnects needs an address, not an open connection".to_owned();
            return Err(ClientError::Connect { to: "the server".to_owned(), reason });
        };
        Ok(Some(ConnectionRecovery::new(self, address.clone(), Arc::new(Resilience::new(nodes)))))
    }

    pub(crate) fn initialize_params(&self) -> InitializeParams {
        InitializeParams { client_info: self.info.clone(), capabilities: Some(self.capabilities.clone()) }
    }
}

impl Client {
    /// Performs the handshake of a connection made with [`ClientBuilder::open`]. The other ways to connect include it.
    pub async fn initialize(&self) -> Result<(), ClientError> {
        let within = self.options().timeouts.connect;
        let server = self.call_within::<Initialize>(self.options().initialize_params(), within).await?;
        if self.options().needs_extension && server.codicil.is_none() {
            let reason =
                "it does not have the extension `codicil`, which a client that reconnects needs".to_owned();
            return Err(ClientError::Connect { to: "the server".to_owned(), reason });
        }
        self.set_server(server);
        self.notify::<Initialized>(Default::default()).await
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("info", &self.info)
            .field("tools", &self.tools)
            .field("timeouts", &self.timeouts)
            .field("limits", &self.limits)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
