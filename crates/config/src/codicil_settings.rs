//! The table `[codicil]`: settings that the reference server does not have.
//!
//! ```toml
//! [codicil.deadlines]             # milliseconds
//! connect = 15000
//! first_token = 300000
//! between_tokens = 300000
//! tool = 3600000
//! idle_thread = 1800000
//!
//! [codicil]
//! protocol = "0.166"              # for clients that do not choose a generation
//! cut_off_turns = "interrupt"     # or "resume"
//!
//! [codicil.approvals]
//! deadline_ms = 3600000           # without it, approvals wait for ever
//! default = "decline"             # or "cancel"
//!
//! [codicil.login]                 # the sign-in service
//! issuer = "https://auth.example.com"
//! client_id = "app"
//! callback_port = 1455            # 0: any free port
//!
//! [codicil.store]                 # threads in PostgreSQL, shared by several servers
//! url = "postgres://codicil@db.example.com/codicil"
//! node = "one"                    # the name of this server
//! advertise = "ws://10.0.0.1:4500" # where clients and other servers reach it
//! places = { code = "/srv/code" } # volumes that several servers have
//! ```

use std::{collections::BTreeMap, time::Duration};

use codicil_protocol::ProtocolGeneration;
use serde::{Deserialize, Deserializer, de};

/// The table `[codicil]`. All members have defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CodicilSettings {
    pub deadlines: TurnDeadlines,
    pub login: LoginSettings,
    pub cut_off_turns: CutOffTurns,
    /// The generation of the protocol for clients that do not choose one. `None`: the built-in default.
    #[serde(deserialize_with = "generation")]
    pub protocol: Option<ProtocolGeneration>,
    pub approvals: ApprovalSettings,
    pub store: StoreSettings,
}

/// The database with the threads. Without a URL, they are files in the home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StoreSettings {
    pub url: Option<String>,
    pub node: Option<String>,
    pub advertise: Option<String>,
    /// The paths of volumes that several servers have, by their names.
    pub places: BTreeMap<String, String>,
}

/// What becomes of a turn that the end of the server cut off while it waited for no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutOffTurns {
    #[default]
    Interrupt,
    /// The model is asked again when the thread is loaded.
    Resume,
}

/// How long approvals wait, and what happens then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ApprovalSettings {
    /// `None`: for ever.
    pub deadline_ms: Option<u64>,
    pub default: DefaultDecision,
}

/// The decision about an approval whose deadline has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultDecision {
    #[default]
    Decline,
    /// Also interrupts the turn.
    Cancel,
}

impl DefaultDecision {
    /// Returns the decision as the protocol spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// The sign-in service and its callback. `None`: the built-in value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoginSettings {
    pub issuer: Option<String>,
    pub client_id: Option<String>,
    pub callback_port: Option<u16>,
}

/// The maximum duration of each phase of a turn, after which the turn fails. Waiting for the user has no deadline: it ends with
/// a response, an interrupt or the departure of the last subscriber.
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
    /// The time after which an idle thread without subscribers is unloaded. Not a deadline of a turn.
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

fn generation<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ProtocolGeneration>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(de::Error::custom)
}
