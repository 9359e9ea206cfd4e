//! The real server in this process, at a socket, with a scripted model.

use codicil_client::UnixSocket;
use codicil_server::{ListenAddress, Server, WsAuth};
use codicil_testkit::{ModelServer, Script, TestHome};
use tokio::{net::UnixStream, task::JoinHandle};

use super::soon;

pub struct Host {
    pub server: Server,
    pub model: ModelServer,
    pub address: UnixSocket,
    serving: JoinHandle<()>,
    home: TestHome,
}

impl Host {
    pub async fn start(script: Script) -> Self {
        let model = ModelServer::start(script).await;
        let home = TestHome::new("", Some(model.base_url()), "");
        let server = home.server();
        let socket = home.path().join("socket");
        let listen: ListenAddress = format!("unix://{}", socket.display()).parse().unwrap();
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
