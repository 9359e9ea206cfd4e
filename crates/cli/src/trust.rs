//! `codicil trust`: allows the configuration of a project to be used.

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;

use crate::args::OverrideArgs;

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The project's root folder [default: the current directory].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Marks the project as trusted, and records its configuration files as agreed to.
pub fn run(overrides: &OverrideArgs, args: &TrustArgs) -> anyhow::Result<ExitCode> {
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => env::current_dir().context("the current directory is gone")?,
    };
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    if !folder.is_dir() {
        bail!("{} is not a directory", folder.display());
    }
    let store = overrides.config_store()?;
    store.trust_project(&folder)?;
    println!("{} is trusted: its configuration is used from the next thread on.", folder.display());
    Ok(ExitCode::SUCCESS)
}
