//! The daemon's own process: it leaves the terminal and the directory of the command that started it.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use codicil_server::Server;

/// A process that is meant to outlive its starter.
pub struct DetachedProcess;

impl DetachedProcess {
    /// Begins a session without a terminal, so that neither the end of the starter's terminal nor Ctrl-C there reaches
    /// this process.
    pub fn begin() -> anyhow::Result<Self> {
        rustix::process::setsid().context("cannot begin a session")?;
        Ok(Self)
    }

    /// Leaves the starter's directory, which must not stay in use. Returns the new one: the user's home.
    ///
    /// Called once nothing more is resolved against the starter's directory.
    pub fn leave_directory(&self) -> anyhow::Result<PathBuf> {
        let directory = env::home_dir().filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"));
        env::set_current_dir(&directory)
            .with_context(|| format!("cannot change to {}", directory.display()))?;
        Ok(directory)
    }

    /// Tells the starter that the server accepts connections, and closes the output that leads to it.
    pub async fn announce(self, server: Server) {
        server.listening().await;
        tracing::info!("process {} is listening", std::process::id());
        // The starter may have given up.
        let _ = writeln!(io::stdout(), "ready").and_then(|()| io::stdout().flush());
        if let Err(error) = close_stdout(Path::new("/dev/null")) {
            tracing::warn!("cannot close standard output: {error}");
        }
    }
}

fn close_stdout(null: &Path) -> io::Result<()> {
    let null = OpenOptions::new().write(true).open(null)?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
