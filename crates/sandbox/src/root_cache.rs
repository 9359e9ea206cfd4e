//! Where the paths of a policy lead, found out once.
//!
//! A command may replace a folder that it can rename or remove by a link. A path that was resolved before keeps its
//! meaning, so the link makes nothing else writable. Each thread has a cache of its own, which lives as long as the
//! thread.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::links::{self, ResolvedPath};

/// Paths that were resolved for one thread. Cheap to clone; every clone is the same cache.
#[derive(Clone, Debug, Default)]
pub struct RootCache(Arc<Mutex<HashMap<PathBuf, ResolvedPath>>>);

impl RootCache {
    /// Where a path leads, by the first answer. `None` for what has not existed so far.
    pub(crate) fn resolve(&self, path: &Path) -> Option<ResolvedPath> {
        let mut resolved = self.0.lock();
        if let Some(found) = resolved.get(path) {
            return Some(found.clone());
        }
        let found = links::resolve(path).ok()?;
        resolved.insert(path.to_owned(), found.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn the_first_answer_counts_and_what_is_missing_is_looked_up_again() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, other) = (base.join("root"), base.join("other"));
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
