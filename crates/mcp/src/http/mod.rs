//! The "streamable HTTP" transport: messages are posted, responses come as JSON or as a stream of events.
//!
//! The SDK implements the protocol (sessions, resuming, cancelling). This module supplies the HTTP client that it
//! needs, with this program's certificates, limits and credentials.

mod events;
mod headers;
mod requests;
mod transport;

pub(crate) use transport::{HttpError, USER_AGENT, client_for, transport};
