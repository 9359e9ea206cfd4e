//! A server, its client and its model, as the body of a test sees them.
//!
//! ```no_run
//! # async fn story() {
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
//! The same story runs within the process (the default), or through the real binary over stdio or a
//! websocket: [`AppBuilder::over`] chooses. A message that nobody read and a reply of the model that
//! nobody asked for fail the test when the `App` goes away.

mod builder;
mod client;
mod home;
mod host;
mod inbox;
mod process;
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
    client::{AskedRequest, PendingRequest, TestClient},
    home::TestHome,
    process::ServerProcess,
};

use self::host::ServerHost;
use crate::{ModelServer, Script};

/// How long a test waits for something that should happen at once. Generous: machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server with a home of its own and one client, which an `App` also is.
pub struct App {
    client: TestClient,
    host: ServerHost,
    home: TestHome,
    model: Option<ModelServer>,
    options: AppBuilder,
    checks_script: bool,
}

impl App {
    /// A server in this process whose model does as the script says, and a client that has said hello.
    pub async fn start(script: impl Into<Script>) -> Self {
        Self::builder().script(script).start().await
    }

    /// For everything that [`start`](Self::start) does not choose.
    pub fn builder() -> AppBuilder {
        AppBuilder::default()
    }

    /// A second connection to the same server, made as the first one was. Stdio has room for one only.
    pub async fn another_client(&mut self) -> TestClient {
        let wire = self.host.connect().await;
        self.options.greet(wire, &self.home).await
    }

    /// Ends the server in good order and starts it again in the same home. What was unread is forgotten.
    pub async fn restart(&mut self) -> &mut Self {
        self.client.disconnect();
        self.host.stop().await;
        self.begin_again().await
    }

    /// Starts a server that was killed again, in the same home.
    pub async fn revive(&mut self) -> &mut Self {
        self.client.disconnect();
        self.process().wait().await;
        self.begin_again().await
    }

    async fn begin_again(&mut self) -> &mut Self {
        let (host, wire) = ServerHost::start(self.options.transport, &self.home).await;
        self.host = host;
        self.client = self.options.greet(wire, &self.home).await;
        self
    }

    /// The model that the script plays.
    pub fn model(&self) -> &ModelServer {
        self.model.as_ref().expect("the app was started with a script")
    }

    /// The directory with configuration and threads.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The process that serves, when it is not this one.
    pub fn process(&mut self) -> &mut ServerProcess {
        self.host.process().expect("the app runs in a process of its own")
    }

    /// Lets this test end with messages unread and replies unused.
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

/// The client checks its own messages.
impl Drop for App {
    fn drop(&mut self) {
        let Some(model) = self.model.as_ref().filter(|_| self.checks_script) else { return };
        if !std::thread::panicking() && !model.is_finished() {
            panic!("the script did not go as written: {model:?}");
        }
    }
}
