//! How an app is set up before its story begins.

use codicil_protocol::{ClientInfo, Initialize, InitializeCapabilities, InitializeParams, Initialized};

use super::{App, client::TestClient, home::TestHome, host::ServerHost, wire::TestWire};
use crate::{ModelServer, Script};

/// What carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TestTransport {
    /// Channels within this process: milliseconds.
    #[default]
    InMemory,
    /// Standard input and output of the real binary.
    Stdio,
    /// A websocket of the real binary.
    WebSocket,
}

/// Choices to be made before an [`App`] starts.
#[derive(Default)]
pub struct AppBuilder {
    pub(super) transport: TestTransport,
    script: Option<Script>,
    config: String,
    provider: String,
    experimental: bool,
    opted_out: Vec<String>,
    silent: bool,
}

impl AppBuilder {
    /// Starts a model that does as the script says and configures the server to use it.
    pub fn script(mut self, script: impl Into<Script>) -> Self {
        self.script = Some(script.into());
        self
    }

    /// In memory unless chosen otherwise.
    pub fn over(mut self, transport: TestTransport) -> Self {
        self.transport = transport;
        self
    }

    /// Lets clients use what is experimental.
    pub fn experimental(mut self) -> Self {
        self.experimental = true;
        self
    }

    /// Notifications that clients do not want.
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
        self.silent = true;
        self
    }

    /// Starts the model, the server and the first client.
    pub async fn start(mut self) -> App {
        let model = match self.script.take() {
            Some(script) => Some(ModelServer::start(script).await),
            None => None,
        };
        let home = TestHome::new(&self.config, model.as_ref().map(ModelServer::base_url), &self.provider);
        let (host, wire) = ServerHost::start(self.transport, &home).await;
        let client = self.greet(wire, &home).await;
        App { client, host, home, model, options: self, checks_script: true }
    }

    /// Makes a connection into a client, with the handshake unless that is the test's business.
    pub(super) async fn greet(&self, wire: TestWire, home: &TestHome) -> TestClient {
        let mut client = TestClient::new(wire, home.places(), self.opted_out.clone());
        if !self.silent {
            client.call::<Initialize>(self.hello()).await;
            client.notify::<Initialized>(Default::default()).await;
        }
        client
    }

    fn hello(&self) -> InitializeParams {
        let client_info =
            ClientInfo { name: "testkit".into(), title: Some("Testkit".into()), version: "1.2.3".into() };
        let capabilities = InitializeCapabilities {
            experimental_api: self.experimental,
            opt_out_notification_methods: Some(self.opted_out.clone()),
        };
        InitializeParams { client_info, capabilities: Some(capabilities) }
    }
}
