//! Attempts things that a confined command must not be able to do, and things that it must. Run by the tests of this
//! crate only.
//!
//! | call | effect |
//! |---|---|
//! | `confine [options] -- PROGRAM …` | runs a program confined, and exits with its code |
//! | `list` | prints the names and classes of all attempts |
//! | `try NAME…` | makes attempts, each in its own process, and prints their results |
//! | `unconfined NAME…` | makes attempts without a sandbox, in namespaces where they do no harm |
//! | `one NAME` | makes one attempt, and exits with 0 or an error number |
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod context;
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
mod table;
#[cfg(target_os = "linux")]
mod unconfined;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((word, rest)) if word == "confine" => confine::run(rest),
        Some((word, _)) if word == "list" => table::list(),
        Some((word, names)) if word == "try" => table::try_all(names),
        Some((word, names)) if word == "unconfined" => unconfined::run(names),
        Some((word, names)) if word == "one" => table::one(&names[0]),
        _ => panic!("usage: confine, list, try, unconfined or one"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("attempts are made on Linux only");
}
