//! How messages come and go: lines over pipes and unix sockets, frames over websockets, or a pair of
//! channels within the process.
//!
//! A transport turns its bytes into a stream of whole messages for [`connection::serve`](crate::connection::serve)
//! and writes what the client's outbox gives it. It knows nothing of what the messages say.

pub mod auth;
mod http;
pub mod in_memory;
mod lines;
pub mod listen;
mod stdio;
mod unix;
mod websocket;

pub use listen::{Listen, ListenError};
