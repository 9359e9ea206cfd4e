//! `[codicil]`: what only this server has, and the ceilings an operator may move.
//!
//! ```toml
//! [codicil]
//! announce_version = "0.153.0"    # the version clients are told
//!
//! [codicil.deadlines]             # milliseconds
//! connect = 15000
//! first_token = 300000
//! between_tokens = 300000
//! tool = 3600000
//!
//! [codicil.queues]                # entries
//! requests = 128
//! mailbox = 64
//! outbox = 4096
//!
//! [codicil.login]                 # who signs people in
//! issuer = "https://auth.example.com"
//! client_id = "app"
//! callback_port = 1455            # 0: any free port
//! ```

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Deserializer};

/// The whole table. Every member has a default that works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CodicilSettings {
    /// Some clients look at the version before they use a feature. `None`: the protocol's version.
    pub announce_version: Option<String>,
    pub deadlines: Deadlines,
    pub queues: Queues,
    pub login: Login,
}

/// Who signs people in, and where their browser comes back to. `None`: what is built in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Login {
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    pub callback_port: Option<u16>,
}

/// How long each phase of a turn may take before the turn ends with an error. Waiting for a person is not
/// a phase: it ends with the person's answer, an interrupt or the last subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Deadlines {
    #[serde(deserialize_with = "milliseconds")]
    pub connect: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub first_token: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub between_tokens: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub tool: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            first_token: Duration::from_secs(300),
            between_tokens: Duration::from_secs(300),
            tool: Duration::from_secs(3600),
        }
    }
}

/// How much may wait before the sender is told to come back later. A queue of nothing would stop the
/// server, so zero is refused when the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Queues {
    /// Requests of one connection that are not answered yet.
    pub requests: NonZeroU32,
    /// Commands waiting for one thread.
    pub mailbox: NonZeroU32,
    /// Messages waiting to be written to one connection.
    pub outbox: NonZeroU32,
}

const fn entries(count: u32) -> NonZeroU32 {
    match NonZeroU32::new(count) {
        Some(count) => count,
        None => NonZeroU32::MIN,
    }
}

impl Default for Queues {
    fn default() -> Self {
        Self { requests: entries(128), mailbox: entries(64), outbox: entries(4096) }
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}
