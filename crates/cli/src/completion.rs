//! `codicil completion`: prints a completion script for a shell.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell that will read it.
    #[arg(value_enum, default_value = "bash")]
    shell: Shell,
}

pub fn run(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    clap_complete::generate(args.shell, &mut Cli::command(), "codicil", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
