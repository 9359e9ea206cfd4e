//! The client SDK of the app-server protocol.
//!
//! A [`Client`] drives a server, `codicil` or any other of that protocol, over a process that it starts
//! ([`Launch`]), a websocket ([`WebSocket`]), a unix socket ([`UnixSocket`]), a stream of lines, or channels within the process
//! ([`Endpoint`]). It mirrors the wire and hides the plumbing:
//!
//! | what | how |
//! |---|---|
//! | every method of the protocol | [`Client::call`], typed by the protocol's one table |
//! | the usual ones, by name | [`Client::start_thread`], [`Client::start_turn`], [`Client::exec_command`] … |
//! | a turn or review from start to end | [`Client::run_turn`], [`Client::run_review`]; [`Client::turn`], [`Client::review`] to follow along |
//! | notifications | [`Client::events`], [`Client::thread_events`] |
//! | approvals and other questions | [`Handler`], with [`Decline`], [`Approve`], [`FailTurn`] and [`ask`] ready-made |
//! | tools that live in the client | [`Tools`] |
//! | a server that comes back after a crash | [`Supervisor`] |
//!
//! Nothing in it grows without a bound ([`Limits`]), waits without one ([`Timeouts`]) or outlives the client.

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
    builder::Builder,
    client::Client,
    codicil_exec::Exit,
    collect::CompletedTurn,
    endpoint::{Address, Endpoint, Launch, UnixSocket, WebSocket},
    error::{Cause, ClientError, Ended, Unfinished},
    events::{Event, Events},
    handler::{Answer, Handler, NoAnswer},
    methods::Turns,
    options::{Limits, Retry, ThreadDefaults, Timeouts},
    params::{IntoInput, command, fork, resume, review, turn},
    policies::{Approval, Approve, Decision, Decline, FailTurn, NON_INTERACTIVE, ask},
    supervisor::{Supervision, Supervisor},
    tools::Tools,
    turn::{CompletedReview, RunningTurn},
};

/// The examples of the user documentation compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Documentation;
