//! The only place that knows JSON-RPC codes.
//!
//! Each error enum has one exhaustive `From` without a `_` arm, so that the author of a new variant has to choose its
//! code; they are in files by subject. The constructors that take a code's name are private to this module and those files:
//! other modules return their own errors.

mod configuration;
mod extensions;
mod machine;
mod relay;
mod threads;

use std::fmt;

use codicil_protocol::rpc::{ErrorObject, codes};
use serde_json::{Value, json};

use crate::{request_keys::KeyError, route::UnroutedMethod};

/// The code in the data of errors about a thread that another server owns.
pub const OWNED_BY_NODE: &str = "ownedByNode";

/// The code in the data of errors about a thread that this server has closed or is about to close.
pub const THREAD_CLOSED: &str = "threadClosed";

/// The error of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    object: ErrorObject,
    place: ErrorPlace,
}

/// What an error says about the server that has the thread of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPlace {
    /// The error is about something else.
    Here,
    /// The thread is not loaded here. Another server may have it.
    NotLoaded,
    /// Another server owns the thread.
    Elsewhere,
}

impl RpcError {
    /// Refuses a request because the client has too many open requests or too much to read.
    pub fn overloaded() -> Self {
        Self::overloaded_with("Server overloaded; retry later.")
    }

    /// Returns whether the request was refused because something is at its limit.
    pub fn is_overload(&self) -> bool {
        self.object.code == codes::OVERLOADED
    }

    /// Refuses a request that comes before `initialize`.
    pub fn not_initialized() -> Self {
        Self::invalid_request("Not initialized")
    }

    /// Refuses a second `initialize`.
    pub fn already_initialized() -> Self {
        Self::invalid_request("Already initialized")
    }

    /// Refuses an experimental method or field of a client that did not opt in.
    pub fn experimental(descriptor: &str) -> Self {
        Self::invalid_request(format_args!("{descriptor} requires experimentalApi capability"))
    }

    /// Refuses a method of the extension on a connection that did not ask for it.
    pub fn extension(method: &str) -> Self {
        Self::invalid_request(format_args!(
            "{method} requires the codicil capability: send `\"codicil\": {{\"version\": 1}}` in the capabilities of initialize"
        ))
    }

    /// Refuses a subscription at a position on a connection that does not receive positions.
    pub fn no_cursor() -> Self {
        Self::invalid_request(
            "codicil/subscribe requires a cursor: send `\"codicil\": {\"version\": 1, \"cursor\": true}` in the \
             capabilities of initialize",
        )
    }

    /// Refuses a method or params that do not match the protocol.
    pub fn malformed(reason: impl fmt::Display) -> Self {
        Self::invalid_request(format_args!("Invalid request: {reason}"))
    }

    /// Replaces a message that is too long to be sent. `what` is `request` or `response`.
    pub fn too_long(what: &str, bytes: usize, max: usize) -> Self {
        Self::internal(format_args!("the {what} is too long to send: {bytes} bytes, at most {max}"))
    }

    /// Reports that the code that serves a request has panicked.
    pub fn panicked() -> Self {
        Self::internal("internal error")
    }

    /// Returns what the error says about where the thread is.
    pub fn place(&self) -> ErrorPlace {
        self.place
    }

    pub fn object(&self) -> &ErrorObject {
        &self.object
    }

    /// Reports a request that is not valid, or not valid now.
    fn invalid_request(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_REQUEST, message)
    }

    /// Reports params that are well-formed, but contradict each other.
    fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_PARAMS, message)
    }

    /// Reports a failure of the server, the system or a backend.
    fn internal(error: impl fmt::Display) -> Self {
        Self::new(codes::INTERNAL_ERROR, error)
    }

    fn overloaded_with(message: impl fmt::Display) -> Self {
        Self::new(codes::OVERLOADED, message)
    }

    fn new(code: i64, message: impl fmt::Display) -> Self {
        let object = ErrorObject { code, message: message.to_string(), data: None };
        Self { object, place: ErrorPlace::Here }
    }

    #[must_use]
    fn at(self, place: ErrorPlace) -> Self {
        Self { place, ..self }
    }

    #[must_use]
    fn with_data(mut self, data: impl Into<Option<Value>>) -> Self {
        self.object.data = data.into();
        self
    }
}

impl From<KeyError> for RpcError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Malformed | KeyError::NotKeyed(_) => Self::invalid_params(error),
        }
    }
}

impl From<UnroutedMethod> for RpcError {
    fn from(error: UnroutedMethod) -> Self {
        let reason = match error {
            UnroutedMethod::Unknown(_) => "unknownMethod",
            UnroutedMethod::NotServed(_) => "methodNotServed",
        };
        Self::malformed(error).with_data(json!({ "reason": reason }))
    }
}
