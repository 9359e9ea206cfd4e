//! The cases, one for each line of the performance table.

mod clients;
mod cluster;
mod commands;
mod flood;
mod history;
mod search;
mod start;
mod turns;

use std::pin::Pin;

use anyhow::Result;

use crate::{
    server::{Bench, ServerSpec},
    table::Number,
};

type Run = for<'a> fn(&'a Bench, &'a ServerSpec) -> Pin<Box<dyn Future<Output = Result<Vec<Number>>> + 'a>>;

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
};
