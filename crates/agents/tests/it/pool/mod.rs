//! Pools of agents: against a scripted server at a socket, and against the real one.
//!
//! The tests of each statement of the integration guide:
//!
//! | the guide says | module |
//! |---|---|
//! | notification events that are handled, each row | [`mapping`] |
//! | events that are skipped, each row | [`skipped`] |
//! | roadmap: approvals, diffs, item lifecycle, archiving, capabilities, telemetry | [`questions`], [`mapping`], [`agents`], [`servers`], [`telemetry`] |
//! | shared server, own servers, working directory, flags and environment, disabled features | [`servers`] |
//! | turn serialization, interrupt and dispose | [`scheduling`] |
//! | warm pool, windows as forks, instructions constraint | [`agents`] |
//! | session recovery and error handling | [`recovery`] |
//! | all of it together | [`real`], [`binary`], [`example`] |

mod agents;
mod binary;
mod example;
mod fake;
mod host;
mod mapping;
mod questions;
mod real;
mod recovery;
mod scheduling;
mod servers;
mod skipped;
mod telemetry;

use std::time::Duration;

use codicil_agents::pool::{Pool, PoolSettings, ReplyStatus, ReplyStream, StreamMessage};
use codicil_client::RestartLimits;
use tokio::time::timeout;

/// Awaits an event that must happen. The timeout is long enough for a loaded machine.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), event).await.expect("the event happens in time")
}

/// Returns all messages of a reply.
async fn all(mut reply: ReplyStream) -> Vec<StreamMessage> {
    let mut messages = Vec::new();
    while let Some(message) = soon(reply.next()).await {
        messages.push(message);
    }
    messages
}

/// Starts a pool on a scripted server, without warm threads.
async fn cold(fake: &mut fake::Fake) -> (Pool, fake::Connection) {
    started(PoolSettings { warm_threads: 0, ..quick(fake) }, fake).await
}

async fn started(settings: PoolSettings, fake: &mut fake::Fake) -> (Pool, fake::Connection) {
    let (pool, connection) = tokio::join!(soon(Pool::start(settings)), fake.accept());
    (pool.unwrap(), connection)
}

/// Returns settings without a delay before restarts.
fn quick(fake: &fake::Fake) -> PoolSettings {
    let restart_limits = RestartLimits { delay: Duration::from_millis(1), ..RestartLimits::default() };
    PoolSettings { restart_limits, ..PoolSettings::new(fake.address.clone()) }
}

fn text(text: &str) -> StreamMessage {
    StreamMessage::Text { text: text.to_owned() }
}

/// Returns how a reply ended.
fn status(messages: &[StreamMessage]) -> Option<ReplyStatus> {
    match messages.last() {
        Some(StreamMessage::Complete { status, .. }) => Some(*status),
        _ => None,
    }
}

/// Returns the code of the final error of a reply.
fn failure(messages: &[StreamMessage]) -> Option<&str> {
    match messages.last() {
        Some(StreamMessage::Error { code, is_final: true, .. }) => Some(code),
        _ => None,
    }
}
