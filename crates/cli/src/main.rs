//! The `codicil` binary.
//!
//! Each subcommand is the module of its name, with its arguments and a `run` function: `codicil app-server`
//! is `app_server/`, `codicil exec` is `exec/`, `codicil trust` is `trust.rs`, and so on. `codicil logout` is
//! in `login.rs`. `args.rs` lists the subcommands and holds the options that all of them share.
//!
//! The remaining modules serve several subcommands: `database` (where threads are stored), `logging`, `shutdown` (signals and the death of the
//! parent), `style` (colours) and `version`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod args;

mod app_server;
mod completion;
mod console;
mod debug;
mod demo;
mod doctor;
mod exec;
mod import;
mod login;
mod man;
mod mock_model;
mod nodes;
mod reindex;
mod sandbox;
mod store;
mod trust;

mod database;
mod logging;
mod shutdown;
mod style;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, CliCommand};

fn main() -> ExitCode {
    codicil_exec::return_large_blocks();
    run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("codicil: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let overrides = cli.overrides;
    overrides.check_used_by(&cli.command)?;
    match cli.command {
        CliCommand::AppServer(args) => app_server::run(&overrides, args),
        CliCommand::Exec(args) => exec::run(overrides, *args),
        CliCommand::Console(args) => console::run(&overrides, args),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Login(args) => login::run(&overrides, &args),
        CliCommand::Logout => login::logout(&overrides),
        CliCommand::Import(args) => import::run(&overrides, &args),
        CliCommand::MockModel(args) => mock_model::run(&args),
        CliCommand::Nodes(args) => nodes::run(&overrides, &args),
        CliCommand::Reindex => reindex::run(&overrides),
        CliCommand::Store(args) => store::run(&overrides, args),
        CliCommand::Sandbox(args) => Ok(sandbox::run(&overrides, &args)),
        CliCommand::Trust(args) => trust::run(&overrides, &args),
        CliCommand::Doctor(args) => doctor::run(&overrides, &args),
        CliCommand::Completion(args) => completion::run(&args),
        CliCommand::Man(args) => man::run(&args),
        CliCommand::Debug(args) => debug::run(&overrides, args),
    }
}
