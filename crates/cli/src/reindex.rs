//! `codicil reindex`: rebuilds the index of stored threads from their files.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use anyhow::bail;
use codicil_store::{BacklogProgress, Store};

use crate::{args::OverrideArgs, database::chosen_url};

pub fn run(overrides: &OverrideArgs) -> anyhow::Result<ExitCode> {
    let config = overrides.config_store()?;
    if chosen_url(None, &config).is_some() {
        bail!(
            "the threads are in a database, whose indexes PostgreSQL maintains: there is nothing to rebuild. \
             `codicil store check` verifies them"
        );
    }
    let store = Store::open(config.home().path().to_path_buf())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shows_progress = std::io::stderr().is_terminal();
        let threads = store
            .reindex(move |progress| {
                if shows_progress {
                    show(&progress)
                }
            })
            .await?;
        store.close().await?;
        if shows_progress {
            eprintln!();
        }
        println!("{threads} {} indexed", if threads == 1 { "thread" } else { "threads" });
        Ok(ExitCode::SUCCESS)
    })
}

/// Overwrites one line. A line that cannot be written does not stop the work.
fn show(progress: &BacklogProgress) {
    let _ = write!(std::io::stderr(), "\r{} of {} files", progress.done, progress.total);
}
