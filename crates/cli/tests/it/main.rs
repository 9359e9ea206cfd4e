//! The real binary: its transports, its flags, its end.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod auth;
#[cfg(target_os = "linux")]
mod canary;
mod client;
#[cfg(target_os = "linux")]
mod command_flood;
#[cfg(target_os = "linux")]
mod confined;
mod crate_layers;
mod deadlines;
mod demo;
mod doctor;
mod ending;
#[cfg(target_os = "linux")]
mod escapes;
mod exec;
mod export;
mod flags;
mod flood;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(target_os = "linux")]
mod half_open;
mod hosts;
mod import;
mod import_later;
mod killed;
mod killed_tools;
#[cfg(target_os = "linux")]
mod leftover_servers;
#[cfg(target_os = "linux")]
mod leftovers;
mod login;
mod mock_model;
mod mutation;
#[cfg(target_os = "linux")]
mod raw;
mod sandbox;
#[cfg(target_os = "linux")]
mod shared_home;
mod stdio;
mod stories;
#[cfg(target_os = "linux")]
mod trust;
mod unix;
mod websocket;

use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};

use tokio::time::timeout;

/// Runs the binary to its end, without input.
fn codicil(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(arguments).env("CODICIL_HOME", home.path()).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits for what must come. Generous: machines are busy.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), event).await.expect("it happens soon")
}
