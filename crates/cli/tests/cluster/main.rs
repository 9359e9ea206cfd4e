//! Tests of the real binary over a PostgreSQL that the tests start themselves.
//!
//! A test binary of its own, unlike the other tests of this crate: cargo runs the binaries one after the other, so databases do
//! not compete with servers under load. Without PostgreSQL each test reports that it is skipped.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

// The store has more to do with a database than these tests.
#[allow(dead_code)]
#[path = "../../../store-postgres/tests/it/database.rs"]
mod database;

mod chaos;
mod check;
mod children;
mod failures;
mod fenced;
mod machine_load;
mod moved_threads;
mod one_server;
mod programs;
mod relay;
mod transfer;
mod two_servers;
mod workspaces;

use std::process::{Command, Output, Stdio};

use codicil_testkit::{App, AppBuilder, Script, TestTransport};

use crate::database::TestDatabase;

/// Returns a server over a database, in a process of its own.
fn server(database: &TestDatabase, script: Script) -> AppBuilder {
    App::builder()
        .script(script)
        .experimental()
        .over(TestTransport::Stdio)
        .arguments(["--store", &database.address()])
}

/// Runs the binary without input and waits for its end.
fn codicil(home: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(arguments).env("CODICIL_HOME", home).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}
