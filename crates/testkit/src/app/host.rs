//! The server of a test, in this process or in the real binary, and connections to it.

use codicil_config::{ConfigSources, ConfigStore, SystemFiles};
use codicil_model::EnvironmentSource;
use codicil_protocol::ProtocolGeneration;
use codicil_server::{ProtocolDefaults, Server, ServerSetup};
use codicil_store::Store;

use super::{builder::TestTransport, home::TestHome, process::ServerProcess, wire::TestWire};

pub(super) enum ServerHost {
    InProcess(Server),
    Stdio(ServerProcess),
    WebSocket { process: ServerProcess, address: String },
}

/// How the server of a test is started.
#[derive(Default)]
pub(super) struct ServerLaunch {
    pub transport: TestTransport,
    /// Arguments and environment variables of the binary.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Whether a websocket listens at a port that is known before the server starts, and can be advertised.
    pub knows_port: bool,
}

impl ServerLaunch {
    fn spawn(&self, home: &TestHome, arguments: &[&str]) -> ServerProcess {
        let arguments = arguments.iter().copied().chain(self.arguments.iter().map(String::as_str));
        ServerProcess::spawn_with(home.path(), arguments, |command| {
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        })
    }
}

impl ServerHost {
    /// Starts a server. Returns it with its first connection.
    pub async fn start(launch: &ServerLaunch, home: &TestHome) -> (Self, TestWire) {
        match launch.transport {
            TestTransport::InMemory => {
                let server = home.server();
                let wire = TestWire::in_memory(&server);
                (Self::InProcess(server), wire)
            }
            TestTransport::Stdio => {
                let mut process = launch.spawn(home, &["app-server"]);
                let wire = TestWire::lines(process.take_stdin(), process.take_stdout());
                (Self::Stdio(process), wire)
            }
            TestTransport::WebSocket => {
                let port = if launch.knows_port { free_port() } else { 0 };
                let listen = format!("ws://127.0.0.1:{port}");
                let mut process = launch.spawn(home, &["app-server", "--listen", &listen]);
                let address = process.announced_address().await;
                let wire = TestWire::websocket(&address).await;
                (Self::WebSocket { process, address }, wire)
            }
        }
    }

    /// Opens another connection to the same server.
    pub async fn connect(&self) -> TestWire {
        match self {
            Self::InProcess(server) => TestWire::in_memory(server),
            Self::Stdio(_) => panic!("a server over stdio has one client"),
            Self::WebSocket { address, .. } => TestWire::websocket(address).await,
        }
    }

    /// Returns the address of a server with a websocket.
    pub fn address(&self) -> &str {
        match self {
            Self::WebSocket { address, .. } => address,
            Self::InProcess(_) | Self::Stdio(_) => panic!("the server has no address"),
        }
    }

    /// Stops the server gracefully. Over stdio, its client must have disconnected.
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

    pub fn process(&mut self) -> Option<&mut ServerProcess> {
        match self {
            Self::InProcess(_) => None,
            Self::Stdio(process) | Self::WebSocket { process, .. } => Some(process),
        }
    }
}

/// Returns a port that nothing listens at.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("there are free ports");
    listener.local_addr().expect("it is bound").port()
}

impl TestHome {
    /// Returns a server in this process, set up as in the binary, but without the configuration and the
    /// environment variables of the machine. The caller stops it.
    pub fn server(&self) -> Server {
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let folder = codicil_config::HomeDirectory::new(self.path()).expect("the home is absolute");
        let setup = ServerSetup {
            config: ConfigStore::new(ConfigSources { system, ..ConfigSources::of(folder) }),
            store: Store::open(self.path()).expect("the home is a directory"),
            cwd: self.workspace().to_owned(),
            protocol: ProtocolDefaults {
                generation: Some(ProtocolGeneration::V118),
                announced_version: None,
            },
            allow_unauthenticated: false,
        };
        Server::with_environment(setup, EnvironmentSource::new(|_| None))
    }
}

impl Drop for ServerHost {
    fn drop(&mut self) {
        // Stops tasks that could outlive the test. Processes are killed when they are dropped.
        if let Self::InProcess(server) = self {
            server.begin_stop();
        }
    }
}
