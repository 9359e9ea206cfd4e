//! The cases, one for each line of the performance table.

pub mod clients;
mod cluster;
mod commands;
mod cursor;
mod flood;
pub mod history;
mod search;
pub mod start;
pub mod turns;

use std::pin::Pin;

use anyhow::Result;

use crate::{
    server::{Bench, ServerSpec},
    table::Number,
};

/// The result of work that is measured.
pub type Measuring<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

type Run = for<'a> fn(&'a Bench, &'a ServerSpec) -> Measuring<'a, Vec<Number>>;

/// Work that is measured for every server.
pub struct Case {
    pub name: &'static str,
    pub run: Run,
}

macro_rules! cases {
    ($($name:literal => $run:path,)*) => {
        &[$(Case { name: $name, run: |bench, spec| Box::pin($run(bench, spec)) },)*]
    };
}

pub const CASES: &[Case] = cases! {
    "start" => start::start,
    "threads" => start::threads,
    "turn" => turns::turn,
    "long thread" => turns::long_thread,
    "stream" => turns::stream,
    "paced stream" => turns::paced,
    "cursor" => cursor::cursor,
    "reconnect" => cursor::reconnect,
    "100 turns" => turns::hundred,
    "500 turns" => turns::five_hundred,
    "history" => history::history,
    "resume" => history::resume,
    "command" => commands::exec,
    "tool call" => commands::tool_call,
    "output" => commands::output,
    "search" => search::search,
    "clients" => clients::clients,
    "flood" => flood::flood,
    "cluster turn" => cluster::turn,
    "cluster 500 turns" => cluster::five_hundred,
    "cluster list" => cluster::list,
    "cluster relay" => cluster::relay,
};
