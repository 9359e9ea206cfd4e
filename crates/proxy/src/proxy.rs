//! Accepts the connections of one command.

use std::{io, net, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::{AllowedMethods, HostGate, http, socks};

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
pub struct CommandProxy(AbortHandle);

impl CommandProxy {
    /// Serves the connections of a listener. Must be called within a runtime.
    pub fn start(
        listener: net::TcpListener,
        gate: Arc<dyn HostGate>,
        methods: AllowedMethods,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        // Aborted when `CommandProxy` is dropped.
        let task = tokio::spawn(accept(listener, gate, methods));
        Ok(Self(task.abort_handle()))
    }
}

impl Drop for CommandProxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: TcpListener, gate: Arc<dyn HostGate>, methods: AllowedMethods) {
    let mut open = JoinSet::new();
    loop {
        while open.len() >= MAX_CONNECTIONS {
            open.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.spawn(serve(stream, gate.clone(), methods));
                }
                Err(error) => {
                    tracing::warn!(%error, "the proxy failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = open.join_next() => {}
        }
    }
}

async fn serve(mut stream: TcpStream, gate: Arc<dyn HostGate>, methods: AllowedMethods) {
    let mut first = [0];
    let Ok(Ok(1)) = timeout(HEAD_TIME, stream.peek(&mut first)).await else { return };
    let served = match first {
        [SOCKS5] => socks::serve(&mut stream, &*gate, methods).await,
        _ => http::serve(&mut stream, &*gate, methods).await,
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection through the proxy failed");
    }
    let _ = stream.shutdown().await;
    // Closing a socket with unread input resets the connection, and the response could be lost.
    let _ = timeout(LINGER_TIME, copy(&mut stream, &mut sink())).await;
}
