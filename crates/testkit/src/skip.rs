//! Tests that this machine cannot run.

use std::{
    fmt::Display,
    io::{Write, stderr},
    thread,
};

/// Says which test is skipped and why. The harness keeps what a test prints to itself unless it fails, so this
/// goes past it: what was not tested has to be seen.
pub fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // In one piece, since tests run beside each other.
    let _ = stderr().write_all(line.as_bytes());
}
