//! The directories of a search.

use std::path::{Path, PathBuf};

use codicil_protocol::normal_path;

/// The directories of a search, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRoots(Vec<SearchRoot>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchRoot {
    /// The path as the client wrote it, which results contain.
    pub shown: String,
    pub path: PathBuf,
    /// Other roots below this one, whose files are reported below their own root.
    pub inner: Vec<PathBuf>,
}

impl SearchRoots {
    /// Resolves roots. Relative paths are relative to `cwd`.
    pub fn new(shown: &[String], cwd: &Path) -> Self {
        let mut roots: Vec<SearchRoot> = Vec::new();
        for shown in shown {
            let path = normal_path(&cwd.join(shown));
            if roots.iter().all(|root| root.path != path) {
                roots.push(SearchRoot { shown: shown.clone(), path, inner: Vec::new() });
            }
        }
        let all: Vec<_> = roots.iter().map(|root| root.path.clone()).collect();
        for root in &mut roots {
            let is_below = |path: &&PathBuf| **path != root.path && path.starts_with(&root.path);
            root.inner = all.iter().filter(is_below).cloned().collect();
        }
        Self(roots)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &SearchRoot)> {
        (0..).zip(&self.0)
    }

    pub(crate) fn path(&self, number: u32) -> Option<&Path> {
        self.0.get(number as usize).map(|root| root.path.as_path())
    }

    pub(crate) fn shown(&self, number: u32) -> &str {
        self.0.get(number as usize).map_or("", |root| &root.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_walked_once_and_leaves_out_the_roots_below_it() {
        let shown = ["/a", "/a/b/", "c", "/a/", "/a/../a/b"].map(str::to_owned);
        let roots = SearchRoots::new(&shown, Path::new("/a"));
        let found: Vec<_> = roots.iter().map(|(_, root)| (root.shown.as_str(), root.inner.len())).collect();
        assert_eq!(found, [("/a", 2), ("/a/b/", 0), ("c", 0)]);
    }
}
