//! `codicil completion`: prints a completion script for a shell.

use std::{io::Write, process::ExitCode};

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
    // The generator panics if it cannot write, so it does not write to standard output itself.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "codicil", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
