//! The `--listen` address.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use super::{auth::WsAuth, stdio, unix, websocket};
use crate::server::Server;

/// A transport endpoint: `stdio://`, `ws://IP:PORT`, `unix://` or `unix://PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListenAddress {
    #[default]
    Stdio,
    WebSocket(SocketAddr),
    Unix(PathBuf),
    /// The control socket of the home, `unix://`.
    Control,
}

/// Why the server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "refusing to listen on {0} without authentication: anyone who reaches this address could run commands \
         as you. Use --ws-auth, listen on 127.0.0.1, or pass --ws-allow-unauthenticated if something else \
         protects it"
    )]
    Unprotected(SocketAddr),
    #[error("--ws-auth is for websocket listeners, not for {0}")]
    AuthWithoutWebSocket(ListenAddress),
    #[error("cannot listen on {listen}: {source}")]
    Bind { listen: ListenAddress, source: std::io::Error },
    #[error("cannot serve metrics on {address}: {source}")]
    Metrics { address: SocketAddr, source: std::io::Error },
    #[error("another server is listening on {}", .0.display())]
    InUse(PathBuf),
    #[error("cannot serve over standard input and output: {0}")]
    Stdio(std::io::Error),
}

/// The error of a malformed `--listen` value.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a listen address: use `stdio://`, `ws://IP:PORT`, `unix://` or `unix://PATH`")]
pub struct NotAnAddress(String);

impl FromStr for ListenAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let invalid = || NotAnAddress(text.to_owned());
        match text.split_once("://").ok_or_else(invalid)? {
            ("stdio", "") => Ok(Self::Stdio),
            ("ws", address) => {
                Ok(Self::WebSocket(address.trim_end_matches('/').parse().map_err(|_| invalid())?))
            }
            ("unix", "") => Ok(Self::Control),
            ("unix", path) => Ok(Self::Unix(path.into())),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("stdio://"),
            Self::WebSocket(address) => write!(f, "ws://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Control => f.write_str("unix://"),
        }
    }
}

impl ListenAddress {
    pub(crate) async fn run(self, server: &Server, auth: WsAuth) -> Result<(), ListenError> {
        match self {
            Self::WebSocket(address) => websocket::run(server, address, auth).await,
            other if !matches!(auth, WsAuth::None) && server.shared.setup.store.backend().is_none() => {
                Err(ListenError::AuthWithoutWebSocket(other))
            }
            Self::Stdio => stdio::run(server).await.map_err(ListenError::Stdio),
            Self::Unix(path) => unix::run(server, path).await,
            Self::Control => unix::run_control(server).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_displayed() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                text.parse::<ListenAddress>().ok().map(|listen| listen.to_string()).as_deref(),
                expected,
                "{text}"
            );
        };
        check("stdio://", Some("stdio://"));
        check("ws://127.0.0.1:0", Some("ws://127.0.0.1:0"));
        check("ws://127.0.0.1:80/", Some("ws://127.0.0.1:80"));
        check("ws://[::1]:9", Some("ws://[::1]:9"));
        check("unix:///run/codicil.sock", Some("unix:///run/codicil.sock"));
        check("unix://", Some("unix://"));
        check("ws://localhost:80", None);
        check("ws://127.0.0.1", None);
        check("http://127.0.0.1:80", None);
        check("stdio", None);
    }
}
