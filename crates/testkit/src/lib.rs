//! What tests drive Codicil with.
//!
//! [`App`] is a server with a client and a home of its own, over any transport; a test tells its story
//! with it. [`ModelServer`] is a model provider on loopback that answers as a [`Script`] says and remembers
//! what it was asked; [`TestIssuer`] signs people in; [`FakeServer`] is for tests of clients. All of it belongs
//! to tests: nothing that serves depends on it, but programs that use Codicil may test themselves with it
//! too, and `codicil mock-model` is the model server for those that are not written in Rust.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod app;
mod fake_server;
mod issuer;
mod model;
mod mutation;
mod programs;
mod skip;

pub use app::{
    App, AppBuilder, AskedRequest, PendingRequest, ServerProcess, TestClient, TestHome, TestTransport,
};
pub use fake_server::FakeServer;
pub use issuer::{TestIssuer, token, visit};
pub use model::{ModelServer, RecordedRequest, Reply, Script, follow};
pub use mutation::MessageMutations;
pub use programs::{built, run_example};
pub use skip::skipped;
