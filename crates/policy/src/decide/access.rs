//! Permissions beyond the sandbox policy, and decisions about those that the model requests ahead of its commands.

use std::path::{Component, Path, PathBuf};

use codicil_protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions,
    AdditionalPermissionProfile, FileSystemAccessMode, FileSystemPath, FileSystemSandboxEntry,
    GrantedPermissionProfile, RequestPermissionProfile,
};

use crate::decide::{DecisionPolicies, policies::QuestionTopic};

/// Network access and directory trees that are requested or granted.
///
/// Paths are compared by their text, so they should be absolute and without symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessGrant {
    pub network: bool,
    pub read: Vec<PathBuf>,
    /// Trees to write, which includes reading.
    pub write: Vec<PathBuf>,
}

impl AccessGrant {
    /// Returns whether this includes all of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        (self.network || !other.network)
            && other.write.iter().all(|path| is_within(&self.write, path))
            && other.read.iter().all(|path| is_within(&self.read, path) || is_within(&self.write, path))
    }

    /// Adds the permissions of another grant.
    pub fn extend(&mut self, other: &Self) {
        self.network |= other.network;
        for (own, new) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            own.extend(new.iter().filter(|path| !own.contains(path)).cloned().collect::<Vec<_>>());
        }
    }

    /// Returns the part of this grant that was requested. An answer cannot grant more than the request.
    pub fn limited_to(&self, requested: &Self) -> Self {
        let within = |paths: &[PathBuf], roots: &[PathBuf]| {
            paths.iter().filter(|path| is_within(roots, path)).cloned().collect()
        };
        Self {
            network: self.network && requested.network,
            read: within(&self.read, &requested.read),
            write: within(&self.write, &requested.write),
        }
    }

    /// Replaces every path by the result of `resolve`, such as the path without symbolic links.
    pub fn resolved(mut self, resolve: impl Fn(&Path) -> PathBuf) -> Self {
        for path in self.read.iter_mut().chain(&mut self.write) {
            *path = resolve(path);
        }
        self
    }

    fn new(
        network: Option<&AdditionalNetworkPermissions>,
        files: Option<&AdditionalFileSystemPermissions>,
    ) -> Self {
        let paths = |paths: Option<&Vec<AbsolutePathBuf>>| {
            paths.into_iter().flatten().map(|path| path.to_path_buf()).collect()
        };
        let network = network.and_then(|network| network.enabled).unwrap_or(false);
        if let Some(entries) = files.and_then(|files| files.entries.as_ref()) {
            return Self {
                network,
                read: paths_of(entries, &FileSystemAccessMode::Read),
                write: paths_of(entries, &FileSystemAccessMode::Write),
            };
        }
        Self {
            network,
            read: paths(files.and_then(|files| files.read.as_ref())),
            write: paths(files.and_then(|files| files.write.as_ref())),
        }
    }
}

/// Returns the paths of rules with this access. Patterns and places without a path grant nothing.
fn paths_of(entries: &[FileSystemSandboxEntry], access: &FileSystemAccessMode) -> Vec<PathBuf> {
    let granted = entries.iter().filter(|entry| entry.access == *access);
    let paths = granted.filter_map(|entry| match &entry.path {
        FileSystemPath::Path { path } => AbsolutePathBuf::new(&path.0),
        FileSystemPath::GlobPattern { .. }
        | FileSystemPath::Special { .. }
        | FileSystemPath::Unrecognized(_) => None,
    });
    paths.map(|path| path.to_path_buf()).collect()
}

/// Returns whether a path is inside one of the roots. A path with `..` is in none, because it could leave them.
fn is_within(roots: &[PathBuf], path: &Path) -> bool {
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    !has_parent && roots.iter().any(|root| path.starts_with(root))
}

impl From<&AdditionalPermissionProfile> for AccessGrant {
    fn from(profile: &AdditionalPermissionProfile) -> Self {
        Self::new(profile.network.as_ref(), profile.file_system.as_ref())
    }
}

impl From<&RequestPermissionProfile> for AccessGrant {
    fn from(profile: &RequestPermissionProfile) -> Self {
        Self::new(profile.network.as_ref(), profile.file_system.as_ref())
    }
}

impl From<&GrantedPermissionProfile> for AccessGrant {
    fn from(profile: &GrantedPermissionProfile) -> Self {
        Self::new(profile.network.as_ref(), profile.file_system.as_ref())
    }
}

/// The decision about a request for permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionsDecision {
    /// All of it was granted earlier, or there is no sandbox to extend.
    Granted,
    Ask,
    /// Nothing is granted, and the model gets `why`.
    Refuse {
        why: String,
    },
}

/// Decides whether later commands may have the requested permissions.
pub fn decide_permissions(requested: &AccessGrant, policies: &DecisionPolicies<'_>) -> PermissionsDecision {
    if !policies.confines() || policies.grants.access().covers(requested) {
        return PermissionsDecision::Granted;
    }
    match policies.why_not_ask(QuestionTopic::Permissions) {
        Some(cause) => {
            let why = format!("{cause}, and the sandbox does not give these permissions; do without them");
            PermissionsDecision::Refuse { why }
        }
        None => PermissionsDecision::Ask,
    }
}
