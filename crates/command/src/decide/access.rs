//! What a command may have beyond its sandbox.

use std::path::{Path, PathBuf};

/// Network and directory trees that were asked for, or granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub network: bool,
    pub read: Vec<PathBuf>,
    /// What may be written may be read.
    pub write: Vec<PathBuf>,
}

impl Access {
    /// Whether this includes all of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        let within = |roots: &[PathBuf], path: &Path| roots.iter().any(|root| path.starts_with(root));
        (self.network || !other.network)
            && other.write.iter().all(|path| within(&self.write, path))
            && other.read.iter().all(|path| within(&self.read, path) || within(&self.write, path))
    }

    /// Adds what another grant gives.
    pub fn extend(&mut self, other: &Self) {
        self.network |= other.network;
        for (own, new) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            own.extend(new.iter().filter(|path| !own.contains(path)).cloned().collect::<Vec<_>>());
        }
    }
}
