//! The way between a browser and the console, which a test can cut.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Forwards connections to a server. While it is cut, it closes every connection.
pub struct CuttableWire {
    pub origin: String,
    state: Arc<Mutex<WireState>>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct WireState {
    is_cut: bool,
    connections: JoinSet<()>,
}

impl CuttableWire {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Mutex<WireState>>::default();
        let shared = state.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((mut browser, _)) = listener.accept().await {
                let mut state = shared.lock();
                if !state.is_cut {
                    state.connections.spawn(async move {
                        if let Ok(mut server) = TcpStream::connect(server).await {
                            // Ends with either side.
                            let _ = copy_bidirectional(&mut browser, &mut server).await;
                        }
                    });
                }
            }
        });
        Self { origin, state, accepting }
    }

    /// Closes every connection, and those to come.
    pub fn cut(&self) {
        let mut state = self.state.lock();
        state.is_cut = true;
        state.connections.abort_all();
    }

    pub fn mend(&self) {
        self.state.lock().is_cut = false;
    }
}

impl Drop for CuttableWire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
