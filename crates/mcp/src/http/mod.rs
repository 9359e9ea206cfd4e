//! Servers at an address, by "streamable HTTP": requests are posted, answers come as JSON or as a stream of
//! events. The SDK has the rules of the protocol (sessions, resuming, cancelling); here is what it asks of an
//! HTTP client, with this program's certificates, ceilings and credentials.

mod clients;
mod events;
mod headers;
mod requests;
mod transport;

pub(crate) use {
    clients::{USER_AGENT, client_for},
    transport::{HttpError, transport},
};
