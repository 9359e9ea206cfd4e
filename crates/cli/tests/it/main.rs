//! Tests of the real binary: transports, flags, shutdown.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod auth;
mod client;
#[cfg(target_os = "linux")]
mod command_flood;
#[cfg(target_os = "linux")]
mod confinement;
mod crate_layers;
mod cursor_kills;
mod daemon;
mod deadlines;
mod debug;
mod demo;
mod doctor;
mod documents;
mod durable_approvals;
#[cfg(target_os = "linux")]
mod escapes;
mod exec;
mod flags;
mod flood;
#[cfg(target_os = "linux")]
mod full_disk;
mod generate;
mod import;
mod import_whole_items;
mod keyed_methods;
mod killed;
mod killed_during_tools;
#[cfg(target_os = "linux")]
mod leftover_servers;
#[cfg(target_os = "linux")]
mod leftovers;
mod login;
mod metrics;
mod mock_model;
mod mutation;
mod network_hosts;
mod raw_server;
mod reconnects;
mod repeated_changes;
mod repeated_requests;
mod sandbox;
#[cfg(target_os = "linux")]
mod secrets;
#[cfg(target_os = "linux")]
mod shared_home;
mod shutdown;
#[cfg(target_os = "linux")]
mod silent_connections;
mod stdio;
mod store_check;
mod traces;
#[cfg(target_os = "linux")]
mod trust;
mod turns;
mod two_servers;
mod unix;
#[cfg(target_os = "linux")]
mod wait;
mod websocket;

use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};

use tokio::time::timeout;

/// Runs the binary without input and waits for its end.
fn codicil(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(arguments).env("CODICIL_HOME", home.path()).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits for an event that must happen. The timeout is generous, because machines are busy.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), event).await.expect("the event happens in time")
}
