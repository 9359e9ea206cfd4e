//! What a command may have beyond its sandbox.

use std::path::{Component, Path, PathBuf};

use codicil_protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions,
    AdditionalPermissionProfile, GrantedPermissionProfile, RequestPermissionProfile,
};

/// Network and directory trees that were asked for, or granted.
///
/// Paths are compared by their text, so all of them should be absolute and free of links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessGrant {
    pub network: bool,
    pub read: Vec<PathBuf>,
    /// What may be written may be read.
    pub write: Vec<PathBuf>,
}

impl AccessGrant {
    /// Whether this includes all of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        (self.network || !other.network)
            && other.write.iter().all(|path| is_within(&self.write, path))
            && other.read.iter().all(|path| is_within(&self.read, path) || is_within(&self.write, path))
    }

    /// Adds what another grant gives.
    pub fn extend(&mut self, other: &Self) {
        self.network |= other.network;
        for (own, new) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            own.extend(new.iter().filter(|path| !own.contains(path)).cloned().collect::<Vec<_>>());
        }
    }

    /// The part of an answer that was asked for: nobody can be granted what they did not want.
    pub fn cut_to(&self, asked: &Self) -> Self {
        let within = |paths: &[PathBuf], roots: &[PathBuf]| {
            paths.iter().filter(|path| is_within(roots, path)).cloned().collect()
        };
        Self {
            network: self.network && asked.network,
            read: within(&self.read, &asked.read),
            write: within(&self.write, &asked.write),
        }
    }

    /// With every path replaced by what `resolve` makes of it, such as the same without links.
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
        Self {
            network: network.and_then(|network| network.enabled).unwrap_or(false),
            read: paths(files.and_then(|files| files.read.as_ref())),
            write: paths(files.and_then(|files| files.write.as_ref())),
        }
    }
}

/// A place that leads upwards is in no tree.
fn is_within(roots: &[PathBuf], path: &Path) -> bool {
    let leads_upwards = path.components().any(|part| part == Component::ParentDir);
    !leads_upwards && roots.iter().any(|root| path.starts_with(root))
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
