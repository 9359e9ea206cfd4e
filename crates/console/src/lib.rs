//! The console: the threads of a server in a browser.
//!
//! HTML is rendered on the server and updated over server-sent events. The console is a client like any other: it uses
//! only the public API of `codicil-client`, in process or over a websocket.
//!
//! | module | |
//! |---|---|
//! | `server.rs` | the HTTP server: start, routes, tasks |
//! | `state.rs` | what all requests share |
//! | `thread_tokens.rs` | the tokens of the threads in lists |
//! | `access/` | sign-in, sessions, and the checks of every request |
//! | `live/` | one task per thread that pages show, and the events for browsers |
//! | `questions/` | the open questions of all threads, and their answers |
//! | `pages/` | what people see |
//! | `actions/` | what people change |
//! | `render/` | text of models, commands and files as safe HTML |
//! | `assets/` | the stylesheet and the script of the browser |

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod access;
mod actions;
mod assets;
mod live;
mod pages;
mod questions;
pub mod render;
mod server;
mod state;
mod thread_tokens;

pub use {
    access::{FormFields, Session, SessionKey, SessionLayer, SignIn},
    server::{ConsoleError, ConsoleOptions, ConsoleServer},
};
