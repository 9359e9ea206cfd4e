//! Runs many agents on few servers: shared or separate servers, warm threads, and windows as forks.
//!
//! A [`Pool`] starts one server, or one per agent, and keeps threads ready on it. An [`Agent`] is a conversation.
//! [`Agent::ask`] returns a [`ReplyStream`] of [`StreamMessage`]s, and [`Agent::window`] forks the conversation. Where
//! a server can run only one turn at a time, turns wait in a fair queue. Crashed servers are restarted, threads are
//! resumed or started anew, and a message on which no work had started is sent again.
//!
//! Approvals and questions of the server are messages of the reply, answered with [`Pool::decide`] and
//! [`Pool::answer`].

#![warn(missing_docs)]

mod agent;
mod command;
mod counters;
mod error;
mod handle;
mod legacy;
mod mapper;
mod message;
mod questions;
mod reply;
mod run;
mod server;
mod settings;
mod tool_items;
mod turn_queue;
mod warm_threads;

pub use self::{
    agent::{Agent, message},
    command::{BuiltinTool, ServerCommand},
    counters::PoolCounts,
    error::PoolError,
    handle::Pool,
    message::{EditState, ItemStage, QuestionId, ReplyStatus, StreamMessage},
    reply::ReplyStream,
    settings::{DefaultDirectory, PoolSettings, ServerSharing, TurnScheduling},
};
