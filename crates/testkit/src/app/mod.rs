//! A server with a client and a model, for tests.
//!
//! ```no_run
//! # async fn test() {
//! use codicil_protocol::AgentMessageDelta;
//! use codicil_testkit::{App, Script};
//!
//! let mut app = App::start(Script::new().say("Let me look").hang()).await;
//! let thread = app.start_thread().await;
//! let turn = app.start_turn(&thread, "Tidy the repo").await;
//! app.until::<AgentMessageDelta>().await;
//!
//! app.interrupt(&turn).await;
//!
//! println!("{}", app.rest().await);
//! # }
//! ```
//!
//! A test runs within the process (the default), or through the real binary over stdio or a websocket:
//! [`AppBuilder::over`] selects the transport. An unread message and an unused reply of the model fail the
//! test when the `App` is dropped.

mod builder;
mod client;
mod folded_thread;
mod home;
mod host;
mod inbox;
mod process;
mod proxy;
mod schema_check;
#[cfg(test)]
mod tests;
mod threads;
mod transcript;
mod wire;

use std::{
    ops::{Deref, DerefMut},
    path::Path,
    time::Duration,
};

pub use self::{
    builder::{AppBuilder, TestTransport},
    client::{AskedRequest, KeyedAnswer, PendingRequest, ReceivedMessage, TestClient},
    folded_thread::FoldedThread,
    home::TestHome,
    process::ServerProcess,
    proxy::CutProxy,
};

use codicil_protocol::CodicilCapabilities;

use self::{host::ServerHost, wire::TestWire};
use crate::{ModelServer, Script};

/// Maximum time to wait for an event. Generous, because machines are busy.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(20);

/// A running server with a home of its own and one client, which an `App` dereferences to.
pub struct App {
    client: TestClient,
    host: ServerHost,
    home: TestHome,
    model: Option<ModelServer>,
    options: AppBuilder,
    checks_script: bool,
}

impl App {
    /// Starts a server in this process with a scripted model, and an initialized client.
    pub async fn start(script: impl Into<Script>) -> Self {
        Self::builder().script(script).start().await
    }

    /// Returns a builder for everything that [`start`](Self::start) has no parameter for.
    pub fn builder() -> AppBuilder {
        AppBuilder::default()
    }

    /// Opens another connection to the same server, with the same options. Stdio has only one.
    pub async fn another_client(&mut self) -> TestClient {
        let wire = self.host.connect().await;
        self.options.new_client(wire, &self.home).await
    }

    /// Opens another connection to a server with a websocket, through a proxy.
    pub async fn proxied_client(&mut self) -> (TestClient, CutProxy) {
        let proxy = CutProxy::start(self.host.address().to_owned()).await;
        let wire = TestWire::websocket(proxy.address()).await;
        (self.options.new_client(wire, &self.home).await, proxy)
    }

    /// Starts another server on the same home, with the same options.
    pub async fn another_server(&mut self) -> ServerBeside {
        let (host, wire) = ServerHost::start(&self.options.launch, &self.home).await;
        ServerBeside { client: self.options.new_client(wire, &self.home).await, host }
    }

    /// Opens another connection to the same server, without the cursor or with it.
    pub async fn another_client_with(&mut self, codicil: Option<CodicilCapabilities>) -> TestClient {
        let own = std::mem::replace(&mut self.options.codicil, codicil);
        let client = self.another_client().await;
        self.options.codicil = own;
        client
    }

    /// Stops the server and starts it again in the same home. Unread messages are dropped.
    pub async fn restart(&mut self) -> &mut Self {
        self.client.disconnect();
        self.host.stop().await;
        self.start_again().await
    }

    /// Starts a server again that was killed, in the same home.
    pub async fn revive(&mut self) -> &mut Self {
        self.client.disconnect();
        self.process().wait().await;
        self.start_again().await
    }

    async fn start_again(&mut self) -> &mut Self {
        let (host, wire) = ServerHost::start(&self.options.launch, &self.home).await;
        self.host = host;
        self.client = self.options.new_client(wire, &self.home).await;
        self
    }

    /// Returns the scripted model.
    pub fn model(&self) -> &ModelServer {
        self.model.as_ref().expect("the app was started with a script")
    }

    /// Returns the directory with configuration and threads.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns the process of the server, if that is not this one.
    pub fn process(&mut self) -> &mut ServerProcess {
        self.host.process().expect("the app runs in a process of its own")
    }

    /// Lets the test end with unread messages and unused replies.
    pub fn ignore_rest(&mut self) {
        self.client.ignore_rest();
        self.checks_script = false;
    }
}

impl Deref for App {
    type Target = TestClient;

    fn deref(&self) -> &TestClient {
        &self.client
    }
}

impl DerefMut for App {
    fn deref_mut(&mut self) -> &mut TestClient {
        &mut self.client
    }
}

/// A second server on the home of an [`App`], with a client, which this dereferences to.
pub struct ServerBeside {
    client: TestClient,
    host: ServerHost,
}

impl ServerBeside {
    /// Returns the process of the server, if that is not this one.
    pub fn process(&mut self) -> &mut ServerProcess {
        self.host.process().expect("the server runs in a process of its own")
    }
}

impl Deref for ServerBeside {
    type Target = TestClient;

    fn deref(&self) -> &TestClient {
        &self.client
    }
}

impl DerefMut for ServerBeside {
    fn deref_mut(&mut self) -> &mut TestClient {
        &mut self.client
    }
}

/// Checks the script. The client checks its own messages.
impl Drop for App {
    fn drop(&mut self) {
        let Some(model) = self.model.as_ref().filter(|_| self.checks_script) else { return };
        if !std::thread::panicking() && !model.is_finished() {
            panic!("the script did not go as written: {model:?}");
        }
    }
}
