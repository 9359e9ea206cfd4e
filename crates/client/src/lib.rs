//! The client SDK of the app-server protocol.
//!
//! A [`Client`] is a connection to a server: `codicil`, or any other program that speaks the protocol. It runs over a
//! child process ([`ServerLaunch`]), a websocket ([`WebSocket`]), a unix socket ([`UnixSocket`]), a stream of lines or
//! in-process channels ([`Endpoint`]).
//!
//! | task | API |
//! |---|---|
//! | call any method of the protocol | [`Client::call`], typed by the protocol's method table |
//! | call a common method by name | [`Client::start_thread`], [`Client::start_turn`], [`Client::exec_command`], … |
//! | run a turn or review and collect its result | [`Client::run_turn`], [`Client::run_review`] |
//! | follow a turn or review while it runs | [`Client::turn`], [`Client::review`] |
//! | read notifications | [`Client::events`], [`Client::thread_events`] |
//! | answer approvals and other server requests | [`RequestHandler`]; ready-made: [`DeclineAll`], [`ApproveAll`], [`FailTurn`], [`ask`] |
//! | offer tools that run in the client | [`ClientTools`] |
//! | survive lost connections and crashed servers | [`ClientBuilder::resilient`] |
//! | restart a crashed server of any kind | [`Supervisor`] |
//!
//! Every buffer is bounded by [`ClientLimits`] and every wait by [`ClientTimeouts`]. No task outlives its client.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub use codicil_protocol as protocol;

mod builder;
mod client;
mod endpoint;
mod error;
mod methods;
mod options;
mod params;

mod collect;
mod events;
mod routes;
mod turn;

mod approvals;
mod handler;
mod legacy;
mod open_edits;
mod policies;
mod responder;
mod tools;

mod connection;
mod connection_state;
mod exchange;
mod ids;
mod missing_fields;
mod nodes;
mod open_requests;
mod pending;
mod receiver;
mod reconnect;
mod resilient;
mod shared;
mod subagents;
mod transport;

mod supervisor;

pub use {
    approvals::{ApprovalDecision, ApprovalRequest, DecisionError, FileChangeApproval},
    builder::ClientBuilder,
    client::Client,
    codicil_exec::ProcessExit,
    collect::CompletedTurn,
    endpoint::{
        Endpoint, InProcessServer, MessageChannels, ServerAddress, ServerLaunch, UnixSocket, WebSocket,
        redact_url,
    },
    error::{ClientError, DisconnectCause, Disconnected, UnfinishedTurn},
    events::{ClientEvent, EventStream, PlacedEvent},
    handler::{HandlerAnswer, NoAnswer, RequestHandler},
    methods::IncludeTurns,
    options::{ClientLimits, ClientTimeouts, RetryOptions, ThreadDefaults},
    params::{IntoInput, command, fork, resume, review, turn, user_thread_sources},
    policies::{ApproveAll, DeclineAll, FailTurn, NON_INTERACTIVE, ask},
    resilient::ReconnectOptions,
    supervisor::{RestartLimits, Supervisor},
    tools::ClientTools,
    transport::{ByteStream, SocketStream, open_socket},
    turn::{CompletedReview, RunningTurn},
};

/// Compiles the examples of the user documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Documentation;
