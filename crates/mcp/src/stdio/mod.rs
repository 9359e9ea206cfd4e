//! Servers that are child processes.
//!
//! The process leads its own session (`codicil-exec`), and the whole session ends with the transport. It gets a few
//! variables, not this process's environment. Its standard error is logged.

mod environment;
mod stderr;
mod transport;

pub(crate) use {stderr::StderrTail, transport::StdioTransport};
