//! Tries what a confined command must not be able to do, and what it must. Only the tests of this crate run it.
//!
//! | call | what it does |
//! |---|---|
//! | `confine [options] -- PROGRAM …` | runs a program confined, and ends as it ends |
//! | `list` | prints the names and classes of all attempts |
//! | `try NAME…` | makes attempts, each in a process of its own, and prints what came of them |
//! | `apart NAME…` | the same without confinement, where they do no harm |
//! | `death` | prints the signal that comes when the parent dies |
//! | `one NAME` | makes one attempt; its exit code is 0 or an error number |
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod apart;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod controls;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod metadata;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod scene;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((word, rest)) if word == "confine" => confine::run(rest),
        Some((word, _)) if word == "list" => table::list(),
        Some((word, names)) if word == "try" => table::try_all(names),
        Some((word, names)) if word == "apart" => apart::run(names),
        Some((word, names)) if word == "one" => table::one(&names[0]),
        _ => panic!("confine, list, try, apart or one"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("attempts are made on Linux only");
}
