//! A directory of its own for an agent, filled from the host within stated limits.
//!
//! A [`Workspace`] is a temporary directory with copies of host files: what an agent does there touches
//! nothing else, and it is gone when the workspace is. [`HostMount`] says what is copied, roots say what may
//! be, budgets say how much. Links are never followed out of the roots, not even when they are put in place
//! while files are being copied.
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

mod builder;
mod copy;
mod error;
mod fingerprint;
mod meter;
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

/// A temporary directory that is filled from the host and removed with this value.
///
/// [`close`](Self::close) removes it and says if that failed. Dropping it removes it too, at once, which blocks for
/// as long as that takes.
#[derive(Debug)]
pub struct Workspace {
    folder: OwnedDirectory,
    fingerprint: Fingerprint,
    mounts: Vec<MountPreview>,
}

/// What a mount brings, or would bring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPreview {
    /// As it was given.
    pub host_path: PathBuf,
    /// Without links.
    pub resolved_host: PathBuf,
    /// Relative to the workspace; empty for the workspace itself.
    pub mount_path: PathBuf,
    /// Whether it is a directory of the host.
    pub is_directory: bool,
    /// Every file, in order.
    pub files: Vec<MountedFile>,
    /// All files together.
    pub bytes: u64,
    /// Links that were left out.
    pub skipped_links: u64,
    /// Pipes, sockets and devices, which are always left out.
    pub skipped_special: u64,
}

impl Workspace {
    /// Begins a workspace without mounts.
    pub fn builder() -> WorkspaceBuilder {
        WorkspaceBuilder::default()
    }

    /// Where it is: absolute, without links.
    pub fn path(&self) -> &Path {
        &self.folder.0
    }

    /// What it was made of; see [`Fingerprint`].
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// What each mount brought, in the order in which they were added.
    pub fn mounts(&self) -> &[MountPreview] {
        &self.mounts
    }

    /// A description for an agent, as a list in markdown.
    pub fn summary(&self) -> String {
        let mut text = "The working directory holds copies of these files; changes stay in it.\n".to_owned();
        for mount in &self.mounts {
            let place =
                if mount.mount_path.as_os_str().is_empty() { Path::new(".") } else { &mount.mount_path };
            let (count, bytes) = (mount.files.len(), mount.bytes);
            let _ = write!(text, "\n- `{}` from `{}`: ", place.display(), mount.host_path.display());
            let _ = write!(text, "{count} {}, {bytes} bytes", if count == 1 { "file" } else { "files" });
        }
        if self.mounts.is_empty() {
            text = "The working directory is empty.".to_owned();
        }
        text
    }

    /// Removes the directory and everything in it, without blocking the runtime.
    pub async fn close(self) -> Result<(), WorkspaceError> {
        let folder = self.folder;
        let shown = folder.0.clone();
        // Should the runtime end before this runs, dropping the folder removes it.
        let removing = tokio::task::spawn_blocking(move || folder.remove());
        let removed = removing.await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
        removed.map_err(|cause| io_error("remove", shown, cause))
    }
}
