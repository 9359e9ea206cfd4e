//! Pools of agents: against a scripted server over a socket, and against the real one.
//!
//! Where the statements of the integration guide are shown:
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

/// Waits for what must come. Generous: machines are busy.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), event).await.expect("it happens soon")
}

/// Everything that comes of a reply.
async fn all(mut reply: ReplyStream) -> Vec<StreamMessage> {
    let mut messages = Vec::new();
    while let Some(message) = soon(reply.next()).await {
        messages.push(message);
    }
    messages
}

/// A pool on a scripted server, without a thread that stands ready.
async fn cold(fake: &mut fake::Fake) -> (Pool, fake::Life) {
    started(PoolSettings { warm: 0, ..quick(fake) }, fake).await
}

async fn started(settings: PoolSettings, fake: &mut fake::Fake) -> (Pool, fake::Life) {
    let (pool, life) = tokio::join!(soon(Pool::start(settings)), fake.life());
    (pool.unwrap(), life)
}

/// Does not wait before a restart.
fn quick(fake: &fake::Fake) -> PoolSettings {
    let supervision = RestartLimits { delay: Duration::from_millis(1), ..RestartLimits::default() };
    PoolSettings { supervision, ..PoolSettings::new(fake.address.clone()) }
}

fn text(text: &str) -> StreamMessage {
    StreamMessage::Text { text: text.to_owned() }
}

/// How a reply ended.
fn status(messages: &[StreamMessage]) -> Option<ReplyStatus> {
    match messages.last() {
        Some(StreamMessage::Complete { status, .. }) => Some(*status),
        _ => None,
    }
}

/// The code of the error that a reply ended with.
fn failure(messages: &[StreamMessage]) -> Option<&str> {
    match messages.last() {
        Some(StreamMessage::Error { code, is_final: true, .. }) => Some(code),
        _ => None,
    }
}
