//! A TCP proxy before the database that cuts a connection at a chosen statement.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

use crate::database::TestPostgres;

pub struct CutProxy {
    pub port: u16,
    state: Arc<ProxyState>,
    _task: AbortOnDropHandle<()>,
}

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// The statement does not reach the database.
    BeforeRequest,
    /// The statement reaches the database; the client does not wait for its end.
    WhileRunning,
    /// The statement is executed; its answer does not reach the client.
    AfterRequest,
}

struct ProxyState {
    socket: PathBuf,
    /// The next statement with this text is cut.
    planned: Mutex<Option<(&'static str, CutAt)>>,
    cuts: watch::Sender<usize>,
}

impl CutProxy {
    pub async fn start(server: &TestPostgres) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = server.socket_directory().join(".s.PGSQL.5432");
        let state = Arc::new(ProxyState { socket, planned: Mutex::default(), cuts: watch::Sender::new(0) });
        let accepting = state.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(accepting.clone().serve(client));
            }
        });
        Self { port, state, _task: AbortOnDropHandle::new(task) }
    }

    /// Cuts the connection of the next statement that contains a text.
    pub fn cut(&self, statement: &'static str, at: CutAt) {
        *self.state.planned.lock() = Some((statement, at));
    }

    /// Waits until connections were cut this many times.
    pub async fn until_cut(&self, times: usize) {
        self.state.cuts.subscribe().wait_for(|cuts| *cuts >= times).await.unwrap();
    }
}

impl ProxyState {
    async fn serve(self: Arc<Self>, mut client: TcpStream) {
        // The server may be down; the client is disconnected then.
        let Ok(mut server) = UnixStream::connect(&self.socket).await else { return };
        let mut requests = vec![0; 64 * 1024];
        let mut answers = vec![0; 64 * 1024];
        let mut cuts_answer = false;
        loop {
            tokio::select! {
                read = client.read(&mut requests) => {
                    let Ok(len @ 1..) = read else { return };
                    let cut = self.take_cut(&requests[..len]);
                    if cut != Some(CutAt::BeforeRequest) && server.write_all(&requests[..len]).await.is_err() {
                        return;
                    }
                    match cut {
                        Some(CutAt::AfterRequest) => cuts_answer = true,
                        Some(CutAt::BeforeRequest | CutAt::WhileRunning) => return self.count_cut(),
                        None => {}
                    }
                }
                read = server.read(&mut answers) => {
                    let Ok(len @ 1..) = read else { return };
                    if cuts_answer {
                        return self.count_cut();
                    }
                    if client.write_all(&answers[..len]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn take_cut(&self, request: &[u8]) -> Option<CutAt> {
        let mut planned = self.planned.lock();
        let (text, at) = (*planned)?;
        let found = memchr::memmem::find(request, text.as_bytes())?;
        debug_assert!(found < request.len());
        *planned = None;
        Some(at)
    }

    fn count_cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}
