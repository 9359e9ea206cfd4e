//! The real server in this process, at a socket, with a scripted model.

use codicil_client::UnixSocket;
use codicil_config::{ConfigStore, Home, Sources, SystemFiles};
use codicil_server::{Listen, PROTOCOL_VERSION, Server, Setup, WsAuth};
use codicil_store::Store;
use codicil_testkit::{ModelServer, Script};
use tokio::{net::UnixStream, task::JoinHandle};

use super::soon;

pub struct Host {
    pub server: Server,
    pub model: ModelServer,
    pub address: UnixSocket,
    serving: JoinHandle<()>,
    home: tempfile::TempDir,
}

impl Host {
    pub async fn start(script: Script) -> Self {
        let model = ModelServer::start(script).await;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().canonicalize().unwrap();
        let config = format!(
            "model = \"m\"\nmodel_provider = \"mock\"\nallow_login_shell = false\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\n\
             request_max_retries = 0\nstream_max_retries = 0\n",
            model.base_url()
        );
        std::fs::write(path.join("config.toml"), config).unwrap();
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let setup = Setup {
            config: ConfigStore::new(Sources { system, ..Sources::of(Home::new(&path).unwrap()) }),
            store: Store::open(&path).unwrap(),
            cwd: path.clone(),
            announced_version: PROTOCOL_VERSION.to_owned(),
            allow_unauthenticated: false,
        };
        let server = Server::new(setup);
        let socket = path.join("socket");
        let listen: Listen = format!("unix://{}", socket.display()).parse().unwrap();
        let listening = server.clone();
        let serving = tokio::spawn(async move { listening.serve(listen, WsAuth::None).await.unwrap() });
        soon(async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        Self { server, model, address: UnixSocket::new(socket), serving, home }
    }

    pub fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    pub async fn stop(self) {
        self.server.begin_stop();
        soon(self.serving).await.unwrap();
    }
}
