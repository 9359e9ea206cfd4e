//! The reasons why a server did not start, worded for the user who configured it.

use std::{error::Error, time::Duration};

use codicil_exec::SpawnError;
use rmcp::{
    service::ClientInitializeError,
    transport::streamable_http_client::{AuthRequiredError, StreamableHttpError},
};
use thiserror::Error;

use crate::{
    call::{CallError, seconds},
    http::HttpError,
    limits::ERROR_CHARS,
    text::cut,
};

/// The reason why a server did not start. Cloned for every thread that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// The program could not be run.
    #[error("{0}")]
    Spawn(String),
    /// The server did not respond in time.
    #[error("timed out after {}. Raise startup_timeout_sec in [mcp_servers.{server}] if it needs longer", seconds(*.after))]
    TimedOut { server: String, after: Duration },
    /// The user has to sign in first.
    #[error("not signed in")]
    NotSignedIn,
    /// An environment variable that the configuration names is missing.
    #[error("{0}")]
    Environment(String),
    /// Any other failure of the server or the network.
    #[error("{0}")]
    Failed(String),
    /// A failure of a process, and the last lines of its standard error.
    #[error("{error}. Its standard error ends with:\n{stderr}")]
    WithStderr { error: Box<StartError>, stderr: String },
}

impl StartError {
    /// Returns the `error` of `mcpServer/startupStatus/updated`.
    pub fn describe(&self, server: &str) -> String {
        cut(&format!("MCP client for `{server}` failed to start: {self}"), ERROR_CHARS)
    }

    /// Adds the end of the server's standard error, where it may explain the failure.
    pub(crate) fn with_stderr(self, stderr: Option<String>) -> StartError {
        match (self, stderr) {
            (error @ (StartError::TimedOut { .. } | StartError::Failed(_)), Some(stderr)) => {
                StartError::WithStderr { error: Box::new(error), stderr }
            }
            (error, _) => error,
        }
    }

    pub(crate) fn spawn(program: &str, error: &SpawnError) -> StartError {
        StartError::Spawn(match error {
            SpawnError::Io(error) => format!("failed to run `{program}`: {error}"),
            other => other.to_string(),
        })
    }

    /// Converts the error of the first list of tools. Some servers require a login only from then on.
    pub(crate) fn unlisted(error: CallError) -> StartError {
        match error {
            CallError::NotSignedIn => StartError::NotSignedIn,
            error => StartError::Failed(format!("its tools could not be listed: {error}")),
        }
    }

    /// `close_reason` returns the reason why the transport closed.
    pub(crate) fn initialize(
        error: &ClientInitializeError,
        close_reason: impl FnOnce() -> String,
    ) -> StartError {
        if error.is_authorization_required() {
            return StartError::NotSignedIn;
        }
        StartError::Failed(match error {
            ClientInitializeError::ConnectionClosed(_) => {
                format!("{} before it was initialized", close_reason())
            }
            ClientInitializeError::JsonRpcError(error) => {
                format!("initialize was refused: {}", error.message)
            }
            ClientInitializeError::TransportError { error, .. } => root_cause(error.error.as_ref()),
            ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
                "the response to initialize is not valid".to_owned()
            }
            other => other.to_string(),
        })
    }
}

/// Returns the first error of a type in a chain of causes.
pub(crate) fn find_cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Returns the text of the innermost cause, without the challenge of a server that requires a login.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if let Some(StreamableHttpError::Client(error)) = cause.downcast_ref::<StreamableHttpError<HttpError>>() {
        return error.to_string();
    }
    // The error's own text repeats the server's challenge.
    if cause.is::<AuthRequiredError>() { StartError::NotSignedIn.to_string() } else { cause.to_string() }
}
