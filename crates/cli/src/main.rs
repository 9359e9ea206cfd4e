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

use crate::args::{Cli, CliCommand};

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
        CliCommand::AppServer(args) => app_server::run(cli.overrides, args)?,
        CliCommand::Exec(args) => return exec::run(cli.overrides, *args),
        CliCommand::Demo => return demo::run(),
        CliCommand::Login(args) => return login::run(&cli.overrides, &args),
        CliCommand::Logout => login::logout(&cli.overrides)?,
        CliCommand::Import(args) => return import::run(&args),
        CliCommand::MockModel(args) => mock_model::run(&args)?,
        CliCommand::Reindex => reindex::run()?,
        CliCommand::Sandbox(args) => sandbox::run(&cli.overrides, &args)?,
        CliCommand::Trust(args) => trust::run(&cli.overrides, &args)?,
        CliCommand::Doctor(args) => doctor::run(&cli.overrides, &args)?,
        CliCommand::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "codicil", &mut std::io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}
