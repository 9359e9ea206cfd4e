//! `codicil reindex`: rebuilds the index of stored threads from their files.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use codicil_config::HomeDirectory;
use codicil_store::{BacklogProgress, Store};

pub fn run() -> anyhow::Result<ExitCode> {
    let store = Store::open(HomeDirectory::from_env()?.path().to_path_buf())?;
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
