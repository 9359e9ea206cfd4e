//! Many agents on few servers: shared or own servers, warm threads, windows and their forks.
//!
//! A [`Pool`] starts a server, or one for each agent, and keeps threads ready on it. An [`Agent`] is a
//! conversation; [`Agent::ask`] gives its [`ReplyStream`] as a stream of [`StreamMessage`]s, and [`Agent::window`] forks
//! it. Turns wait in a fair line where the server can run only one at a time. Servers that crash come back,
//! threads are resumed or started anew, and a message of which nothing had been done is sent again.
//!
//! Questions of the server are messages of the reply, answered with [`Pool::decide`] and [`Pool::answer`].

#![warn(missing_docs)]

mod agent;
mod command;
mod counters;
mod desk;
mod error;
mod foreign;
mod handle;
mod line;
mod mapper;
mod message;
mod outbox;
mod reply;
mod run;
mod server;
mod settings;
mod tool;
mod warm;

pub use self::{
    agent::Agent,
    command::{BuiltinTool, McpServer, McpToken, ServerCommand},
    counters::PoolCounts,
    error::PoolError,
    handle::Pool,
    message::{ApprovalSubject, ItemStage, QuestionId, ReplyStatus, StreamMessage},
    reply::ReplyStream,
    settings::{DefaultDirectory, PoolSettings, ServerSharing, TurnScheduling},
};
