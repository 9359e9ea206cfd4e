//! Test support for Codicil.
//!
//! [`App`] is a server with a client and a home of its own, over any transport. [`ModelServer`] is a model
//! provider on loopback that answers as a [`Script`] says and records its requests. [`TestIssuer`] is an
//! OAuth issuer, and [`FakeServer`] is for tests of clients. The server does not depend on this crate.
//! Programs that use Codicil may use it for their own tests, and `codicil mock-model` serves the same model
//! to programs in other languages.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod app;
mod fake_server;
mod issuer;
mod model;
mod mutation;
mod programs;

pub use app::{
    App, AppBuilder, AskedRequest, CutProxy, FoldedThread, KeyedAnswer, PendingRequest, ReceivedMessage,
    ServerBeside, ServerProcess, TestClient, TestHome, TestTransport,
};
pub use fake_server::FakeServer;
pub use issuer::{TestIssuer, test_token, visit_page};
pub use model::{ModelServer, RecordedRequest, Reply, Script, script_file_replies};
pub use mutation::MessageMutations;
pub use programs::{built_program, run_example, skipped};
