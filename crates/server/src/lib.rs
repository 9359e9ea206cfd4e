//! The app-server: who is connected, what they ask, and where the answer comes from.
//!
//! Start with [`router`](router::router), the whole surface of the server on one page. A message flows
//! from a [transport](transport) through its [`connection`] to a handler, and back through the client's
//! [`outbox`]. What is true of every request is done once, in [`route`]; what is true of every client
//! (subscriptions, questions) once, in [`clients`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod background;
mod clients;
mod commands;
mod connection;
mod cx;
mod encoded;
mod ephemeral;
mod error;
mod feedback;
mod files;
#[cfg(test)]
mod fixture;
mod handlers;
mod inbound;
mod limits;
mod outbox;
mod questions;
mod route;
mod router;
mod server;
mod transport;
mod user_agent;

pub use error::RpcError;
pub use feedback::{RecentLogs, recent_logs};
pub use server::{PROTOCOL_VERSION, Server, ServerSetup};
pub use transport::{
    auth::{AuthError, WsAuth},
    in_memory::{MemoryConnection, connect},
    listen::{ListenAddress, ListenError},
};
