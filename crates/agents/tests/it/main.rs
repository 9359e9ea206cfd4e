//! The public API of the agent layer against real servers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod evaluate;
mod pool;
mod refusing_server;
mod workspace;
