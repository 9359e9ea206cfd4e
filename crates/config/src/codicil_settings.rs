//! `[codicil]`: what only this server has, and the ceilings an operator may move.
//!
//! ```toml
//! [codicil.deadlines]             # milliseconds
//! connect = 15000
//! first_token = 300000
//! between_tokens = 300000
//! tool = 3600000
//! idle_thread = 1800000
//!
//! [codicil.login]                 # who signs people in
//! issuer = "https://auth.example.com"
//! client_id = "app"
//! callback_port = 1455            # 0: any free port
//! ```

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// The whole table. Every member has a default that works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CodicilSettings {
    pub deadlines: TurnDeadlines,
    pub login: LoginSettings,
}

/// Who signs people in, and where their browser comes back to. `None`: what is built in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoginSettings {
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    pub callback_port: Option<u16>,
}

/// How long each phase of a turn may take before the turn ends with an error. Waiting for a person is not
/// a phase: it ends with the person's answer, an interrupt or the last subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TurnDeadlines {
    #[serde(deserialize_with = "milliseconds")]
    pub connect: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub first_token: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub between_tokens: Duration,
    #[serde(deserialize_with = "milliseconds")]
    pub tool: Duration,
    /// Not of a turn: how long a stored thread stays loaded when it has no work and nobody listens to it.
    #[serde(deserialize_with = "milliseconds")]
    pub idle_thread: Duration,
}

impl Default for TurnDeadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            first_token: Duration::from_secs(300),
            between_tokens: Duration::from_secs(300),
            tool: Duration::from_secs(3600),
            idle_thread: Duration::from_secs(1800),
        }
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}
