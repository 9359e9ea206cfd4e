//! Why a server did not start, in words for the person who configured it.

use std::{error::Error, time::Duration};

use codicil_exec::SpawnError;
use rmcp::{
    service::ClientInitializeError,
    transport::streamable_http_client::{AuthRequiredError, StreamableHttpError},
};
use thiserror::Error;

use crate::{call::seconds, http::HttpError, limits::ERROR_CHARS, text::cut};

/// Why a server did not start. Cloned to everybody who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// The program could not be run.
    #[error("{0}")]
    Spawn(String),
    /// It did not answer in time.
    #[error("timed out after {}. Raise startup_timeout_sec in [mcp_servers.{server}] if it needs longer", seconds(*.after))]
    TimedOut { server: String, after: Duration },
    /// A person has to sign in first.
    #[error("not signed in")]
    NotSignedIn,
    /// The environment lacks what the configuration names.
    #[error("{0}")]
    Environment(String),
    /// Everything that a server or a network can do.
    #[error("{0}")]
    Failed(String),
}

impl StartError {
    /// For the `error` of `mcpServer/startupStatus/updated`.
    pub fn describe(&self, server: &str) -> String {
        cut(&format!("MCP client for `{server}` failed to start: {self}"), ERROR_CHARS)
    }

    pub(crate) fn spawn(program: &str, error: &SpawnError) -> StartError {
        StartError::Spawn(match error {
            SpawnError::Io(error) => format!("failed to run `{program}`: {error}"),
            other => other.to_string(),
        })
    }

    /// `ending` is what the transport knows about its end.
    pub(crate) fn initialize(error: &ClientInitializeError, ending: impl FnOnce() -> String) -> StartError {
        if error.is_authorization_required() {
            return StartError::NotSignedIn;
        }
        StartError::Failed(match error {
            ClientInitializeError::ConnectionClosed(_) => format!("{} before it was initialized", ending()),
            ClientInitializeError::JsonRpcError(error) => {
                format!("initialize was refused: {}", error.message)
            }
            ClientInitializeError::TransportError { error, .. } => root(error.error.as_ref()),
            ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
                "the answer to initialize cannot be read".to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// The innermost cause says what happened; those around it say only where.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if let Some(StreamableHttpError::Client(error)) = cause.downcast_ref::<StreamableHttpError<HttpError>>() {
        return error.to_string();
    }
    // Its own words repeat the server's challenge.
    if cause.is::<AuthRequiredError>() { StartError::NotSignedIn.to_string() } else { cause.to_string() }
}
