//! The console: the threads of a server in a browser.
//!
//! HTML is rendered on the server and updated over server-sent events. The console is a client like any other: it uses
//! only the public API of `codicil-client`, in process or over a websocket.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod render;
