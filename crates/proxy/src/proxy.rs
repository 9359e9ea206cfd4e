//! Accepts the connections of one command.

use std::{io, net, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use crate::{HostGate, ProxyRules, SocksSupport, http, socks};

/// How many connections a command may have at a time. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 128;

/// How long a client may take to send its request.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a client may keep sending after the response.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// The pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The first byte of a SOCKS5 greeting. No HTTP method begins with it.
const SOCKS5: u8 = 5;

/// The proxy of one command. Dropping it ends the proxy and all its connections.
#[derive(Debug)]
pub struct CommandProxy(#[expect(dead_code, reason = "dropping it aborts the tasks")] JoinSet<()>);

impl CommandProxy {
    /// Serves the connections of the listeners. Must be called within a runtime.
    pub fn start(
        listeners: Vec<net::TcpListener>,
        gate: Arc<dyn HostGate>,
        rules: ProxyRules,
    ) -> io::Result<Self> {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut tasks = JoinSet::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            tasks.spawn(accept(TcpListener::from_std(listener)?, slots.clone(), gate.clone(), rules));
        }
        Ok(Self(tasks))
    }
}

async fn accept(listener: TcpListener, slots: Arc<Semaphore>, gate: Arc<dyn HostGate>, rules: ProxyRules) {
    let mut open = JoinSet::new();
    // The semaphore is never closed.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        while open.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let gate = gate.clone();
                open.spawn(async move {
                    serve(stream, gate, rules).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection to the proxy of a command");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(mut stream: TcpStream, gate: Arc<dyn HostGate>, ProxyRules { methods, socks }: ProxyRules) {
    let mut first = [0];
    let Ok(Ok(1)) = timeout(HEAD_TIME, stream.peek(&mut first)).await else { return };
    let served = match (first, socks) {
        ([SOCKS5], SocksSupport::Served) => socks::serve(&mut stream, &*gate, methods).await,
        ([SOCKS5], SocksSupport::Refused) => Ok(()),
        _ => http::serve(&mut stream, &*gate, methods).await,
    };
    if let Err(error) = served {
        tracing::debug!(%error, "failed to serve a connection through the proxy");
    }
    let _ = stream.shutdown().await;
    // Closing a socket with unread input resets the connection, and the response could be lost.
    let _ = timeout(LINGER_TIME, copy(&mut stream, &mut sink())).await;
}
