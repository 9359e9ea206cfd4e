//! What can be wrong with a workspace: its configuration, the host's files, or the limits.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a workspace could not be made, looked at or removed.
#[derive(Debug, Error)]
pub enum WorkspaceError {
    /// A mount reaches for what it may not have.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// A mount is larger than allowed.
    #[error(transparent)]
    Budget(#[from] BudgetExceededError),
    /// A mount that cannot be meant.
    #[error("invalid mount {}: {problem}", mount.display())]
    Invalid {
        /// As it was given.
        mount: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Two mounts bring a file to the same place.
    #[error("two files are mounted at {}", path.display())]
    Collision {
        /// Within the workspace.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried: `open`, `read`, …
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Its answer.
        cause: io::Error,
    },
    /// Whoever wanted it has gone; nothing is left behind.
    #[error("the workspace was given up while it was being made")]
    Abandoned,
}

/// A mount that violates the rules of its workspace. Nothing was copied, or it has been removed again.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SecurityError {
    /// Mounts need a root that allows them.
    #[error("{} may not be mounted: no host root is allowed", path.display())]
    NoAllowedRoots {
        /// The host path.
        path: PathBuf,
    },
    /// The path, with its links resolved, is in none of the allowed roots.
    #[error("{} is outside the allowed host roots", path.display())]
    OutsideAllowedRoots {
        /// The host path as it was given.
        path: PathBuf,
    },
    /// A place in the workspace that is not in the workspace.
    #[error("mount path leaves the workspace: {}", path.display())]
    MountPath {
        /// As it was given.
        path: PathBuf,
    },
    /// There is a symbolic link, and the mount refuses them ([`Symlinks::Refuse`](super::SymlinkPolicy)).
    #[error("symbolic link in a mount: {}", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A link to be followed leads out of the allowed roots.
    #[error("symbolic link leads outside the allowed host roots: {}", path.display())]
    LinkEscapes {
        /// The link.
        path: PathBuf,
    },
    /// Something became a link, or changed its kind, while it was being opened.
    #[error("{} was replaced while it was being read", path.display())]
    Replaced {
        /// What was replaced.
        path: PathBuf,
    },
    /// Directories nest deeper than any sensible tree.
    #[error("directories nest too deeply: {}", path.display())]
    TooDeep {
        /// Where it was given up.
        path: PathBuf,
    },
}

/// More than a mount, or all of them together, may bring.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{} exceeds its budget of {limit} {unit}", whose(.mount))]
pub struct BudgetExceededError {
    /// The mount's host path; `None` when it is the budget of the whole workspace.
    pub mount: Option<PathBuf>,
    /// How much was allowed.
    pub limit: u64,
    /// Of what.
    pub unit: BudgetUnit,
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetUnit {
    /// Bytes of file content.
    Bytes,
    /// Files, and directory entries that have to be looked at.
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

fn whose(mount: &Option<PathBuf>) -> String {
    mount.as_ref().map_or_else(|| "the workspace".to_owned(), |path| format!("mount {}", path.display()))
}

pub(super) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
    cause: impl Into<io::Error>,
) -> WorkspaceError {
    WorkspaceError::Io { action, path: path.into(), cause: cause.into() }
}
