//! The `codicil` binary: one subcommand a module.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod app_server;
mod args;
mod demo;
mod descriptors;
mod doctor;
mod ending;
mod exec;
mod export;
mod import;
mod in_process;
mod logging;
mod login;
mod mock_model;
mod reindex;
mod sandbox;
mod style;
mod trust;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    codicil_exec::return_large_blocks();
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("codicil: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::AppServer(args) => app_server::run(cli.overrides, args)?,
        Command::Exec(args) => return exec::run(cli.overrides, *args),
        Command::Demo => return demo::run(),
        Command::Login(args) => return login::run(&cli.overrides, &args),
        Command::Logout => login::logout(&cli.overrides)?,
        Command::Import(args) => return import::run(&args),
        Command::MockModel(args) => mock_model::run(&args)?,
        Command::Reindex => reindex::run()?,
        Command::Sandbox(args) => sandbox::run(&cli.overrides, &args)?,
        Command::Trust(args) => trust::run(&cli.overrides, &args)?,
        Command::Doctor(args) => doctor::run(&cli.overrides, &args)?,
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "codicil", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}
