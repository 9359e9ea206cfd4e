//! Errors of workspaces.

use std::{io, path::PathBuf};

use thiserror::Error;

/// The error of creating, previewing or removing a workspace.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A mount violates the security rules.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// A budget is exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceededError),
    /// A mount is invalid.
    #[error("invalid mount {}: {problem}", mount.display())]
    Invalid {
        /// As configured.
        mount: PathBuf,
        /// The problem.
        problem: String,
    },
    /// Two mounts copy a file to the same path.
    #[error("two files are mounted at {}", path.display())]
    Collision {
        /// The path in the workspace.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// The action: `open`, `read`, …
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// The future was dropped before the workspace was complete. Nothing remains.
    #[error("creating the workspace was cancelled")]
    Abandoned,
}

/// A mount that violates the security rules. Nothing was copied, or it was removed again.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SecurityError {
    /// No root is allowed.
    #[error("{} may not be mounted: no host root is allowed", path.display())]
    NoAllowedRoots {
        /// The host path.
        path: PathBuf,
    },
    /// The path, with its links resolved, is outside the allowed roots.
    #[error("{} is outside the allowed host roots", path.display())]
    OutsideAllowedRoots {
        /// The host path as it was given.
        path: PathBuf,
    },
    /// The mount path is outside the workspace.
    #[error("mount path leaves the workspace: {}", path.display())]
    MountPath {
        /// As configured.
        path: PathBuf,
    },
    /// A symbolic link, with [`SymlinkPolicy::Refuse`](super::SymlinkPolicy::Refuse).
    #[error("symbolic link in a mount: {}", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A followed link leads out of the allowed roots.
    #[error("symbolic link leads outside the allowed host roots: {}", path.display())]
    LinkEscapes {
        /// The link.
        path: PathBuf,
    },
    /// A file became a link, or changed its kind, while it was being opened.
    #[error("{} was replaced while it was being read", path.display())]
    Replaced {
        /// The replaced file.
        path: PathBuf,
    },
    /// Directories are nested too deeply.
    #[error("directories nest too deeply: {}", path.display())]
    TooDeep {
        /// The directory at the limit.
        path: PathBuf,
    },
}

/// An exceeded budget.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{} exceeds its budget of {limit} {unit}", owner_of(.mount))]
pub struct BudgetExceededError {
    /// The mount's host path; `None` for the budget of the whole workspace.
    pub mount: Option<PathBuf>,
    /// The limit.
    pub limit: u64,
    /// The unit of the limit.
    pub unit: BudgetUnit,
}

/// The unit of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// Bytes of file content.
    Bytes,
    /// Files, and directory entries that are read.
    Files,
}

impl std::fmt::Display for BudgetUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Files => "files",
        })
    }
}

fn owner_of(mount: &Option<PathBuf>) -> String {
    mount.as_ref().map_or_else(|| "the workspace".to_owned(), |path| format!("mount {}", path.display()))
}

pub(super) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
    cause: impl Into<io::Error>,
) -> WorkspaceError {
    WorkspaceError::Io { action, path: path.into(), cause: cause.into() }
}
