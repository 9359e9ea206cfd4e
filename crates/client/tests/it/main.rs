//! The client against a scripted server, a misbehaving one, and the real one in this process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod conversation;
mod ending;
mod events;
mod examples;
mod fake;
mod framing;
mod hostile;
mod in_process;
mod listener;
mod many;
mod nodes;
mod overload;
mod questions;
mod resilient;
mod review;
mod seed;
mod supervisor;
mod symphony;
mod tools;
mod transports;

use std::time::Duration;

use tokio::time::timeout;

/// Awaits an event that must happen. The timeout is long enough for a loaded machine.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), event).await.expect("the event happens in time")
}
