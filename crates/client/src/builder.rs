//! How a client is set up and connected.

use std::{fmt, sync::Arc, time::Duration};

use codicil_protocol::{ClientInfo, Initialize, InitializeCapabilities, InitializeParams, Initialized};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    client::Client,
    connection,
    endpoint::{Endpoint, EndpointKind, ServerAddress},
    error::ClientError,
    events::EventStream,
    handler::{AnyHandler, RequestHandler},
    options::{ClientLimits, ClientTimeouts, RetryOptions, ThreadDefaults},
    policies::DeclineAll,
    question::RequestResponder,
    receive::MessageReceiver,
    shared::ClientShared,
    tools::ClientTools,
    transport,
};

/// Choices to be made before a [`Client`] connects. All have defaults.
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
    /// Whether paths mean the same to the server.
    pub(crate) is_local: bool,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            info: ClientInfo { name: "codicil-client".to_owned(), title: None, version },
            capabilities: InitializeCapabilities {
                experimental_api: true,
                opt_out_notification_methods: None,
            },
            handler: Arc::new(DeclineAll),
            tools: Arc::default(),
            timeouts: ClientTimeouts::default(),
            limits: ClientLimits::default(),
            retry: RetryOptions::default(),
            thread_defaults: ThreadDefaults::default(),
            is_local: true,
        }
    }
}

impl ClientBuilder {
    /// How this client presents itself to the server, and through it to model providers.
    pub fn name(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info.name = name.into();
        self.info.version = version.into();
        self
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// Keeps to the stable protocol. Without this, experimental methods and fields are asked for.
    pub fn stable_only(mut self) -> Self {
        self.capabilities.experimental_api = false;
        self
    }

    /// Notifications that the server need not send, by their exact names.
    pub fn opt_out<'m>(mut self, methods: impl IntoIterator<Item = &'m str>) -> Self {
        let names = self.capabilities.opt_out_notification_methods.get_or_insert_default();
        names.extend(methods.into_iter().map(str::to_owned));
        self
    }

    /// Who answers the server's questions. [`DeclineAll`] unless said otherwise.
    pub fn handler(mut self, handler: impl RequestHandler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// Tools that this client runs for the model.
    pub fn tools(mut self, tools: ClientTools) -> Self {
        self.tools = Arc::new(tools);
        self
    }

    /// How long things may take.
    pub fn timeouts(mut self, timeouts: ClientTimeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How long requests may take, from the call to the answer.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.request = timeout;
        self
    }

    /// How long a whole turn may take; `None` for as long as it wants.
    pub fn turn_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeouts.turn = timeout;
        self
    }

    /// How much is kept at most.
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How requests are repeated that an overloaded server refused.
    pub fn retry(mut self, retry: RetryOptions) -> Self {
        self.retry = retry;
        self
    }

    /// What threads are started with where their params say nothing.
    pub fn thread_defaults(mut self, defaults: ThreadDefaults) -> Self {
        self.thread_defaults = defaults;
        self
    }

    /// Connects and shakes hands. Must be called within a tokio runtime, on which the connection then lives.
    pub async fn connect(self, endpoint: impl Into<Endpoint>) -> Result<Client, ClientError> {
        let client = self.dial(endpoint).await?;
        client.greet().await?;
        Ok(client)
    }

    /// Opens the connection and leaves the handshake to [`Client::greet`], before which nothing else is answered.
    /// For those who want to see to the end of a server that does not shake hands: the client is theirs to
    /// [close](Client::close), which tells what the server said last.
    pub async fn dial(self, endpoint: impl Into<Endpoint>) -> Result<Client, ClientError> {
        self.open(endpoint.into()).await
    }

    /// The same, with every notification from the first on: some come right after the handshake.
    pub async fn connect_and_listen(
        self,
        endpoint: impl Into<Endpoint>,
    ) -> Result<(Client, EventStream), ClientError> {
        let client = self.open(endpoint.into()).await?;
        let events = client.events();
        client.greet().await?;
        Ok((client, events))
    }

    async fn open(mut self, endpoint: Endpoint) -> Result<Client, ClientError> {
        self.is_local = !matches!(endpoint.0, EndpointKind::Address(ServerAddress::WebSocket(_)));
        let within = self.timeouts.connect;
        let opening = timeout(within, transport::open(endpoint, &self.limits)).await;
        let late = || ClientError::ResponseTimeout { method: "connect".to_owned(), within };
        let link = opening.map_err(|_| late())??;
        let (outgoing, posted) = mpsc::channel(self.limits.outgoing.max(1));
        let shared = Arc::new(ClientShared::new(self.limits.clone()));
        let desk = RequestResponder {
            handler: self.handler.clone(),
            tools: self.tools.clone(),
            shared: shared.clone(),
            outgoing: outgoing.downgrade(),
        };
        let receiver = MessageReceiver::new(shared.clone(), desk);
        // Ends by itself, within the time for closing, when the last handle of the client is dropped.
        tokio::spawn(connection::run(link, posted, receiver, self.timeouts.close));
        Ok(Client::new(shared, outgoing, self))
    }

    pub(crate) fn hello(&self) -> InitializeParams {
        InitializeParams { client_info: self.info.clone(), capabilities: Some(self.capabilities.clone()) }
    }
}

impl Client {
    /// Shakes hands, after [`Builder::dial`]. All other ways to connect have done it already.
    pub async fn greet(&self) -> Result<(), ClientError> {
        let within = self.options().timeouts.connect;
        let server = self.call_within::<Initialize>(self.options().hello(), within).await?;
        self.set_server(server);
        self.notify::<Initialized>(Default::default()).await
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("info", &self.info)
            .field("tools", &self.tools)
            .field("timeouts", &self.timeouts)
            .field("limits", &self.limits)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
