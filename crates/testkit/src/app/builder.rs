//! The setup of an [`App`].

use codicil_protocol::{
    CODICIL_VERSION, ClientInfo, CodicilCapabilities, Initialize, InitializeCapabilities, InitializeParams,
    Initialized,
};

use super::{
    App,
    client::TestClient,
    home::TestHome,
    host::{ServerHost, ServerLaunch},
    wire::TestWire,
};
use crate::{ModelServer, Script};

/// The transport of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestTransport {
    /// Channels within this process, which are fastest.
    #[default]
    InMemory,
    /// Standard input and output of the real binary.
    Stdio,
    /// A websocket of the real binary.
    WebSocket,
}

/// Options of an [`App`].
#[derive(Default)]
pub struct AppBuilder {
    pub(super) launch: ServerLaunch,
    script: Option<Script>,
    config: String,
    provider: String,
    experimental: bool,
    pub(super) codicil: Option<CodicilCapabilities>,
    opted_out: Vec<String>,
    later_client: bool,
    uninitialized: bool,
}

impl AppBuilder {
    /// Starts a model with this script, and configures the server to use it.
    pub fn script(mut self, script: impl Into<Script>) -> Self {
        self.script = Some(script.into());
        self
    }

    /// Sets the transport; in memory by default.
    pub fn over(mut self, transport: TestTransport) -> Self {
        self.launch.transport = transport;
        self
    }

    /// Adds arguments of `codicil app-server`, for the transports of the real binary.
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.launch.arguments.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Lets servers over websockets listen at ports that are known before, so that other servers reach them.
    pub fn known_port(mut self) -> Self {
        self.launch.knows_port = true;
        self
    }

    /// Sets an environment variable of the real binary.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.launch.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Enables the experimental API for clients.
    pub fn experimental(mut self) -> Self {
        self.experimental = true;
        self
    }

    /// Lets clients announce themselves as clients of the newest generation.
    pub fn later_client(mut self) -> Self {
        self.later_client = true;
        self
    }

    /// Lets clients use the extension `codicil`.
    pub fn extension(mut self) -> Self {
        self.codicil = Some(CodicilCapabilities { version: CODICIL_VERSION, ..Default::default() });
        self
    }

    /// Lets clients use the extension, with positions in the messages of threads.
    pub fn cursor(mut self) -> Self {
        self.codicil =
            Some(CodicilCapabilities { version: CODICIL_VERSION, cursor: true, ..Default::default() });
        self
    }

    /// Opts clients out of notifications.
    pub fn opt_out<'m>(mut self, methods: impl IntoIterator<Item = &'m str>) -> Self {
        self.opted_out.extend(methods.into_iter().map(str::to_owned));
        self
    }

    /// Adds keys (before tables) to `config.toml`.
    pub fn config(mut self, toml: &str) -> Self {
        self.config.push_str(toml);
        self.config.push('\n');
        self
    }

    /// Adds keys to the table of the script's provider.
    pub fn provider(mut self, toml: &str) -> Self {
        self.provider.push_str(toml);
        self.provider.push('\n');
        self
    }

    /// Leaves `initialize` to the test.
    pub fn uninitialized(mut self) -> Self {
        self.uninitialized = true;
        self
    }

    /// Starts the model, the server and the first client.
    pub async fn start(mut self) -> App {
        let model = match self.script.take() {
            Some(script) => Some(ModelServer::start(script).await),
            None => None,
        };
        let home = TestHome::new(&self.config, model.as_ref().map(ModelServer::base_url), &self.provider);
        let (host, wire) = ServerHost::start(&self.launch, &home).await;
        let client = self.new_client(wire, &home).await;
        App { client, host, home, model, options: self, checks_script: true }
    }

    /// Creates a client for a connection. Sends the handshake, unless the app is `uninitialized`.
    pub(super) async fn new_client(&self, wire: TestWire, home: &TestHome) -> TestClient {
        let mut client = TestClient::new(wire, home.places(), self.opted_out.clone());
        if !self.uninitialized {
            client.call::<Initialize>(self.initialize_params()).await;
            client.notify::<Initialized>(Default::default()).await;
        }
        client
    }

    fn initialize_params(&self) -> InitializeParams {
        let client_info =
            ClientInfo { name: "testkit".into(), title: Some("Testkit".into()), version: "1.2.3".into() };
        let capabilities = InitializeCapabilities {
            experimental_api: self.experimental,
            codicil: self.codicil.clone(),
            request_attestation: self.later_client.then_some(true),
            opt_out_notification_methods: Some(self.opted_out.clone()),
            ..InitializeCapabilities::default()
        };
        InitializeParams { client_info, capabilities: Some(capabilities) }
    }
}
