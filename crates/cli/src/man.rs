//! `codicil man`: the manual pages of the program and its subcommands, made from the same table as `--help`.

use std::{fs, io, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use crate::args::Cli;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write the pages of all subcommands to this directory, instead of the main page to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let Some(out) = &args.out else {
        Man::new(Cli::command()).render(&mut io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    };
    let failed = || format!("cannot write to {}", out.display());
    fs::create_dir_all(out).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), out).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
