//! The process of the daemon. It has a session and a working directory of its own, so that it does not depend on the command
//! that started it.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use codicil_server::Server;

/// A process that outlives the command that started it.
pub struct DetachedProcess;

impl DetachedProcess {
    /// Begins a session without a terminal. Closing the terminal of the starting command, or Ctrl-C there, has then no effect
    /// on this process.
    pub fn begin() -> anyhow::Result<Self> {
        rustix::process::setsid().context("cannot begin a session")?;
        Ok(Self)
    }

    /// Changes to the home of the user and returns it. The directory of the starting command can then be removed or unmounted.
    ///
    /// Call it after all relative paths of the command line have been resolved.
    pub fn leave_directory(&self) -> anyhow::Result<PathBuf> {
        let directory = env::home_dir().filter(|home| home.is_dir()).unwrap_or_else(|| PathBuf::from("/"));
        env::set_current_dir(&directory)
            .with_context(|| format!("cannot change to {}", directory.display()))?;
        Ok(directory)
    }

    /// Writes a line to the starting command when the server accepts connections, and closes standard output.
    pub async fn announce(self, server: Server) {
        server.listening().await;
        tracing::info!("process {} is listening", std::process::id());
        // Fails if the starting command has ended.
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
