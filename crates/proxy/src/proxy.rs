//! Accepting the connections of one command.

use std::{io, net, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::{AllowedMethods, HostGate, http, socks};

/// Connections of one command at a time; further ones wait to be accepted.
const MOST: usize = 128;

/// How long a client may take to say what it wants.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a client may go on talking after its answer.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// After a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The first byte of a SOCKS5 greeting. No HTTP method begins with it.
const SOCKS5: u8 = 5;

/// The proxy of one command. It ends, with every connection, when this is dropped.
#[derive(Debug)]
pub struct CommandProxy(AbortHandle);

impl CommandProxy {
    /// Serves what connects to the listener. Within a runtime only.
    pub fn start(
        listener: net::TcpListener,
        gate: Arc<dyn HostGate>,
        methods: AllowedMethods,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        // Ended by the handle.
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
        while open.len() >= MOST {
            open.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.spawn(serve(stream, gate.clone(), methods));
                }
                Err(error) => {
                    tracing::warn!(%error, "the proxy could not accept a connection");
                    tokio::time::sleep(PAUSE).await;
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
        tracing::debug!(%error, "a connection through the proxy broke");
    }
    let _ = stream.shutdown().await;
    // To close while something is unread resets the connection, and the answer may be lost with it.
    let _ = timeout(LINGER_TIME, copy(&mut stream, &mut sink())).await;
}
