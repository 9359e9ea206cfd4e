//! Servers that are child processes: how one is started, spoken to and ended.
//!
//! The process leads a session of its own (`codicil-exec`), and the whole session ends with the transport. It
//! gets a few variables, not the server's environment. What it writes to standard error is logged.

mod environment;
mod stderr;
mod transport;

pub(crate) use transport::StdioTransport;
