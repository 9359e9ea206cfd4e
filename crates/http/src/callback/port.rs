//! The loopback port of a callback address.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use codicil_protocol::Secret;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{CallbackListener, StateCheck, listener::CallbackRoutes};

/// Path by which one program asks another to release a shared port.
pub(super) const CANCEL_PATH: &str = "/cancel";

/// Attempts to bind a shared port that is in use, and the pause between them.
const BIND_ATTEMPTS: u32 = 10;
const BIND_PAUSE: Duration = Duration::from_millis(200);
/// Time that the holder of a shared port has to answer the request to release it.
const RELEASE_TIME: Duration = Duration::from_secs(2);

/// A bound port. The caller puts it into the redirect URI, then begins to listen with [`Self::listen`].
pub struct CallbackPort {
    listener: TcpListener,
    is_shared: bool,
}

impl CallbackPort {
    /// Binds a port of its own; 0 chooses a free one.
    pub async fn bind(port: u16) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(loopback(port)).await?, is_shared: false })
    }

    /// Binds a port that several programs use, because the issuer allows no other redirect URI. A program that
    /// waits there for its own login is asked to release the port with `GET /cancel`. The new listener answers
    /// the same request with [`CallbackOutcome::Cancelled`](super::CallbackOutcome::Cancelled).
    pub async fn bind_shared(port: u16) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            match TcpListener::bind(loopback(port)).await {
                Ok(listener) => return Ok(Self { listener, is_shared: true }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
                Err(_) if attempt == BIND_ATTEMPTS => {
                    let text = format!("Port 127.0.0.1:{port} is already in use");
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                Err(_) => {}
            }
            if attempt == 1 {
                // A holder that does not know the request keeps the port; the attempts then run out.
                let _ = timeout(RELEASE_TIME, request_release(port)).await;
            }
            attempt += 1;
            sleep(BIND_PAUSE).await;
        }
    }

    /// Returns the number of the port.
    pub fn number(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Waits for the browser at `path`, for the login with this `state`.
    pub fn listen(self, path: String, state: Secret, check: StateCheck) -> CallbackListener {
        let is_cancellable = self.is_shared;
        CallbackListener::new(self.listener, CallbackRoutes { path, state, check, is_cancellable })
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

async fn request_release(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect(loopback(port)).await?;
    let request =
        format!("GET {CANCEL_PATH} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.read_u8().await.map(drop)
}
