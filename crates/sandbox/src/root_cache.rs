//! A cache of the resolved paths of a policy.
//!
//! A command may replace a folder that it can rename or remove by a symbolic link. A path that was resolved before keeps
//! its first resolution, so that the link makes nothing else writable. Each thread has its own cache, which lives as long
//! as the thread.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::resolved_path::{self, ResolvedPath};

/// The paths resolved for one thread. Cheap to clone; clones share the cache.
#[derive(Clone, Debug, Default)]
pub struct RootCache(Arc<Mutex<HashMap<PathBuf, ResolvedPath>>>);

impl RootCache {
    /// Returns the first resolution of a path, or `None` while it does not exist.
    pub(crate) fn resolve(&self, path: &Path) -> Option<ResolvedPath> {
        let mut resolved = self.0.lock();
        if let Some(found) = resolved.get(path) {
            return Some(found.clone());
        }
        let found = resolved_path::resolve(path).ok()?;
        resolved.insert(path.to_owned(), found.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn the_first_resolution_is_kept_and_missing_paths_are_looked_up_again() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let root = base.join("root");
        let other = base.join("other");
        let cache = RootCache::default();
        assert_eq!(cache.resolve(&root), None);

        fs::create_dir(&root).unwrap();
        assert_eq!(cache.resolve(&root).unwrap().path, root);
        fs::remove_dir(&root).unwrap();
        fs::create_dir(&other).unwrap();
        symlink(&other, &root).unwrap();
        assert_eq!(cache.resolve(&root).unwrap().path, root);
        assert_eq!(RootCache::default().resolve(&root).unwrap().path, other);
    }
}
