//! Temporary directories for agents, filled with copies of host files within given limits.
//!
//! A [`Workspace`] is a temporary directory. An agent that works there changes no host file, and the directory is
//! removed with the workspace. A [`HostMount`] selects what is copied, roots restrict what may be copied, and budgets
//! limit how much. Symbolic links are never followed out of the roots, not even links that appear while files are
//! being copied.
//!
//! ```no_run
//! use codicil_agents::workspace::{HostMount, Workspace, WorkspaceError};
//!
//! # async fn example() -> Result<(), WorkspaceError> {
//! let workspace = Workspace::builder()
//!     .allow_root("/srv")
//!     .mount(HostMount::new("/srv/project").exclude("target").max_bytes(10 << 20))
//!     .create()
//!     .await?;
//! println!("{} at {}", workspace.summary(), workspace.path().display());
//! workspace.close().await?;
//! # Ok(())
//! # }
//! ```

mod budget;
mod builder;
mod copy;
mod error;
mod fingerprint;
mod mount;
mod open;
mod remove;
mod walk;

use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
};

pub(crate) use self::fingerprint::hex;
pub use self::{
    builder::{DEFAULT_MAX_BYTES, DEFAULT_MAX_FILES, WorkspaceBuilder},
    copy::MountedFile,
    error::{BudgetExceededError, BudgetUnit, SecurityError, WorkspaceError},
    fingerprint::Fingerprint,
    mount::{HostMount, SymlinkPolicy},
};

use self::{error::io_error, remove::OwnedDirectory};

/// A temporary directory with copies of host files, removed with this value.
///
/// [`close`](Self::close) removes the directory and reports errors. Dropping the workspace removes it as well, and
/// blocks until that is done.
#[derive(Debug)]
pub struct Workspace {
    directory: OwnedDirectory,
    fingerprint: Fingerprint,
    mounts: Vec<MountPreview>,
    max_bytes: u64,
    max_files: u64,
}

/// The files of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPreview {
    /// The host path as configured.
    pub host_path: PathBuf,
    /// The host path with links resolved.
    pub resolved_host: PathBuf,
    /// The path in the workspace; empty for the workspace itself.
    pub mount_path: PathBuf,
    /// Whether the host path is a directory.
    pub is_directory: bool,
    /// The files, in order.
    pub files: Vec<MountedFile>,
    /// The total size of the files.
    pub bytes: u64,
    /// The budget of the mount, if it has its own.
    pub max_bytes: Option<u64>,
    /// The number of links that were left out.
    pub skipped_links: u64,
    /// The number of pipes, sockets and devices, which are always left out.
    pub skipped_special: u64,
}

impl Workspace {
    /// Returns a builder without mounts.
    pub fn builder() -> WorkspaceBuilder {
        WorkspaceBuilder::default()
    }

    /// Returns the absolute path, without links.
    pub fn path(&self) -> &Path {
        &self.directory.0
    }

    /// Returns the fingerprint of the mounts, budgets and files.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Returns the files of each mount, in the order in which the mounts were added.
    pub fn mounts(&self) -> &[MountPreview] {
        &self.mounts
    }

    /// Describes the mounts and budgets to an agent, as a markdown list.
    pub fn summary(&self) -> String {
        let mut text = "The working directory holds copies of these files; changes stay in it.\n".to_owned();
        for mount in &self.mounts {
            let place =
                if mount.mount_path.as_os_str().is_empty() { Path::new(".") } else { &mount.mount_path };
            let count = mount.files.len();
            let unit = if count == 1 { "file" } else { "files" };
            let _ = write!(text, "\n- `{}` from `{}`: ", place.display(), mount.host_path.display());
            let _ = write!(text, "{count} {unit}, {} bytes", mount.bytes);
            if let Some(max) = mount.max_bytes {
                let _ = write!(text, " (budget: {max} bytes)");
            }
        }
        if self.mounts.is_empty() {
            return "The working directory is empty.".to_owned();
        }
        let bytes: u64 = self.mounts.iter().map(|mount| mount.bytes).sum();
        let files: usize = self.mounts.iter().map(|mount| mount.files.len()).sum();
        let _ = write!(
            text,
            "\n\nBudget: {bytes} of {} bytes, {files} of {} files.",
            self.max_bytes, self.max_files
        );
        text
    }

    /// Removes the directory and its content, without blocking the runtime.
    pub async fn close(self) -> Result<(), WorkspaceError> {
        let directory = self.directory;
        let path = directory.0.clone();
        // If the runtime ends before this runs, dropping `directory` removes it.
        let removing = tokio::task::spawn_blocking(move || directory.remove());
        let removed = removing.await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        removed.map_err(|cause| io_error("remove", path, cause))
    }
}
