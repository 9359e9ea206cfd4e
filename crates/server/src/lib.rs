//! The app-server: connections, transports, the router and its handlers.
//!
//! Start with [`router`](router::router), the whole surface of the server on one page. A message flows from a
//! [transport](transport) through its [`connection`] to a handler, and back through the client's [`outbox`]. The steps
//! that all requests have in common are in [`route`]; subscriptions and server requests are in [`clients`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod background;
mod clients;
mod cluster;
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
mod generation;
mod guardian_denial;
mod handlers;
mod inbound;
mod limits;
mod opening;
mod outbox;
mod paging;
mod questions;
mod refusals;
mod relay;
mod request_keys;
mod route;
mod router;
mod samples;
mod server;
mod timeline;
mod transport;
mod user_agent;

pub use cluster::ClusterDuty;
pub use feedback::{RecentLogs, recent_logs};
pub use generation::{ANNOUNCED_GENERATION, ProtocolDefaults, generation_of};
pub use server::{Server, ServerSetup};
pub use transport::{
    auth::{AuthError, WsAuth},
    in_memory::{MemoryConnection, connect},
    listen::{ListenAddress, ListenError},
    socket_lock::wait_until_unlocked,
    unix::control_socket,
};
