//! Reports tests that cannot run on this machine.

use std::{
    fmt::Display,
    io::{Write, stderr},
    thread,
};

/// Prints which test is skipped and why. It bypasses the test harness, which hides the output of tests that
/// pass: what was not tested must be visible.
pub fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    // In one write, because tests run in parallel.
    let _ = stderr().write_all(line.as_bytes());
}
