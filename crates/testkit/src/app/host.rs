//! What serves: this process or the real binary, and how a client reaches it.

use codicil_config::{ConfigStore, Sources, SystemFiles};
use codicil_model::Environment;
use codicil_server::{PROTOCOL_VERSION, Server, Setup};
use codicil_store::Store;

use super::{builder::Transport, home::Home, process::Process, wire::Wire};

pub(super) enum Host {
    InProcess(Server),
    Stdio(Process),
    WebSocket { process: Process, address: String },
}

impl Host {
    /// A server and its first connection.
    pub async fn start(transport: Transport, home: &Home) -> (Self, Wire) {
        match transport {
            Transport::InMemory => {
                let server = home.server();
                let wire = Wire::in_memory(&server);
                (Self::InProcess(server), wire)
            }
            Transport::Stdio => {
                let mut process = Process::spawn(home.path(), ["app-server"]);
                let wire = Wire::lines(process.take_stdin(), process.take_stdout());
                (Self::Stdio(process), wire)
            }
            Transport::WebSocket => {
                let mut process = Process::spawn(home.path(), ["app-server", "--listen", "ws://127.0.0.1:0"]);
                let address = process.announced_address().await;
                let wire = Wire::websocket(&address).await;
                (Self::WebSocket { process, address }, wire)
            }
        }
    }

    /// Another connection to the same server.
    pub async fn connect(&self) -> Wire {
        match self {
            Self::InProcess(server) => Wire::in_memory(server),
            Self::Stdio(_) => panic!("a server over stdio has one client"),
            Self::WebSocket { address, .. } => Wire::websocket(address).await,
        }
    }

    /// Ends the server in good order. Over stdio its client must have gone already.
    pub async fn stop(&mut self) {
        match self {
            Self::InProcess(server) => server.stop().await,
            Self::Stdio(process) => process.expect_success().await,
            Self::WebSocket { process, .. } => {
                process.terminate();
                process.expect_success().await;
            }
        }
    }

    pub fn process(&mut self) -> Option<&mut Process> {
        match self {
            Self::InProcess(_) => None,
            Self::Stdio(process) | Self::WebSocket { process, .. } => Some(process),
        }
    }
}

impl Home {
    /// A server in this process, set up as the binary would do it, but deaf to the machine's own configuration
    /// and variables. Whoever starts it stops it.
    pub fn server(&self) -> Server {
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let folder = codicil_config::Home::new(self.path()).expect("the home is absolute");
        let setup = Setup {
            config: ConfigStore::new(Sources { system, ..Sources::of(folder) }),
            store: Store::open(self.path()).expect("the home is a directory"),
            cwd: self.workspace().to_owned(),
            announced_version: PROTOCOL_VERSION.to_owned(),
            allow_unauthenticated: false,
        };
        Server::with_environment(setup, Environment::new(|_| None))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Ends tasks that would outlive the test if its runtime did; processes are killed by themselves.
        if let Self::InProcess(server) = self {
            server.begin_stop();
        }
    }
}
