//! The client SDK of the app-server protocol.
//!
//! A [`Client`] drives a server, `codicil` or any other of that protocol, over a process that it starts
//! ([`ServerLaunch`]), a websocket ([`WebSocket`]), a unix socket ([`UnixSocket`]), a stream of lines, or channels within the process
//! ([`Endpoint`]). It mirrors the wire and hides the plumbing:
//!
//! | what | how |
//! |---|---|
//! | every method of the protocol | [`Client::call`], typed by the protocol's one table |
//! | the usual ones, by name | [`Client::start_thread`], [`Client::start_turn`], [`Client::exec_command`] … |
//! | a turn or review from start to end | [`Client::run_turn`], [`Client::run_review`]; [`Client::turn`], [`Client::review`] to follow along |
//! | notifications | [`Client::events`], [`Client::thread_events`] |
//! | approvals and other questions | [`RequestHandler`], with [`DeclineAll`], [`ApproveAll`], [`FailTurn`] and [`ask`] ready-made |
//! | tools that live in the client | [`ClientTools`] |
//! | a server that comes back after a crash | [`Supervisor`] |
//!
//! Nothing in it grows without a bound ([`ClientLimits`]), waits without one ([`ClientTimeouts`]) or outlives the client.

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

mod handler;
mod legacy;
mod policies;
mod question;
mod tools;

mod connection;
mod ids;
mod pending;
mod receive;
mod repair;
mod shared;
mod transport;

mod supervisor;

pub use {
    builder::ClientBuilder,
    client::Client,
    codicil_exec::ProcessExit,
    collect::CompletedTurn,
    endpoint::{Endpoint, ServerAddress, ServerLaunch, UnixSocket, WebSocket},
    error::{ClientError, DisconnectCause, Disconnected, UnfinishedTurn},
    events::{ClientEvent, EventStream},
    handler::{HandlerAnswer, NoAnswer, RequestHandler},
    methods::IncludeTurns,
    options::{ClientLimits, ClientTimeouts, RetryOptions, ThreadDefaults},
    params::{IntoInput, command, fork, resume, review, turn},
    policies::{ApprovalDecision, ApprovalRequest, ApproveAll, DeclineAll, FailTurn, NON_INTERACTIVE, ask},
    supervisor::{RestartLimits, Supervisor},
    tools::ClientTools,
    turn::{CompletedReview, RunningTurn},
};

/// The examples of the user documentation compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Documentation;
