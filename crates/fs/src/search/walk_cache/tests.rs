use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::search::{
    index::IndexWriter,
    walk::{FoundPath, WalkLimits, walk},
};

/// A tree with a repository in it, and a cache of its walk.
struct CachedTree {
    cache: WalkCache,
    roots: SearchRoots,
    place: TempDir,
}

impl CachedTree {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        for folder in ["a/b", "repo/.git/info", "repo/src"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["a/b/file", "repo/.gitignore", "repo/.git/info/exclude", "repo/src/main"] {
            fs::write(root.join(file), "x\n").unwrap();
        }
        symlink("a/b/file", root.join("link")).unwrap();
        let roots = SearchRoots::new(&[root.to_str().unwrap().to_owned()], Path::new("/"));
        let tree = Self { cache: WalkCache::default(), roots, place };
        tree.cache_walk(SystemTime::now() + 2 * MARGIN);
        tree.wait_for_the_clock();
        tree
    }

    fn walk(&self) -> Arc<PathIndex> {
        let index = Arc::new(PathIndex::new(Arc::default()));
        let cancelled = CancellationToken::new();
        let limits = WalkLimits { cancelled: &cancelled, deadline: Instant::now() + Duration::from_secs(60) };
        walk(&self.roots, 2, limits, || IndexWriter::new(&index));
        index.finish();
        index
    }

    /// Caches the walk as if it had begun at this time. A tree that changed shortly before is not cached, and in a test
    /// everything did, so the time is a later one.
    fn cache_walk(&self, began: SystemTime) {
        self.cache.expect(&self.roots).keep(&self.walk(), began, 2);
    }

    /// Waits until the system's clock for files has advanced, so that later changes have another time.
    fn wait_for_the_clock(&self) {
        let probe = self.place.path().join("probe");
        let time = || {
            fs::write(&probe, "x").unwrap();
            PathStamp::of(&probe, PathAspect::Change).unwrap().changed
        };
        let before = time();
        while time() == before {
            thread::yield_now();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join("root").join(name)
    }

    fn is_cached(&self) -> bool {
        self.cache.get(&self.roots, 2).is_some()
    }
}

/// A change that must be noticed, with its name.
type Change = (&'static str, fn(&CachedTree));

const CHANGES: &[Change] = &[
    ("a new file", |tree| fs::write(tree.path("a/b/new"), "").unwrap()),
    ("a new file in the root", |tree| fs::write(tree.path("new"), "").unwrap()),
    ("a removed file", |tree| fs::remove_file(tree.path("a/b/file")).unwrap()),
    ("a renamed directory", |tree| fs::rename(tree.path("a/b"), tree.path("a/c")).unwrap()),
    ("edited rules", |tree| fs::write(tree.path("repo/.gitignore"), "y\n").unwrap()),
    ("new rules", |tree| fs::write(tree.path("a/.ignore"), "y\n").unwrap()),
    ("edited excludes", |tree| fs::write(tree.path("repo/.git/info/exclude"), "y\n").unwrap()),
    ("rules above", |tree| fs::write(tree.place.path().join(".ignore"), "y\n").unwrap()),
    ("a repository above", |tree| fs::create_dir(tree.place.path().join(".git")).unwrap()),
    ("other permissions", |tree| {
        fs::set_permissions(tree.path("a"), fs::Permissions::from_mode(0o700)).unwrap();
    }),
    ("another directory in its place", |tree| {
        fs::rename(tree.path(""), tree.place.path().join("away")).unwrap();
        fs::create_dir(tree.path("")).unwrap();
    }),
    ("no root", |tree| fs::remove_dir_all(tree.path("")).unwrap()),
];

#[test]
fn a_change_of_any_dependency_invalidates_the_walk() {
    for (what, change) in CHANGES {
        let tree = CachedTree::new();
        assert!(tree.is_cached(), "before {what}");
        change(&tree);
        assert!(!tree.is_cached(), "{what}");
    }
}

#[test]
fn changed_contents_and_files_outside_keep_the_walk_valid() {
    let tree = CachedTree::new();
    fs::write(tree.path("a/b/file"), "longer than before").unwrap();
    fs::write(tree.place.path().join("beside"), "").unwrap();
    assert!(tree.is_cached());
    let index = tree.cache.get(&tree.roots, 2).unwrap();
    let paths = |index: &PathIndex| {
        let (chunks, _) = index.chunks();
        let all = chunks.iter().flat_map(|chunk| (0..chunk.len()).filter_map(|at| chunk.get(at, 0)));
        let mut paths: Vec<_> = all.map(|FoundPath { path, .. }| path.to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&index), paths(&tree.walk()));
}

#[test]
fn a_tree_that_changed_shortly_before_the_walk_is_not_cached() {
    let tree = CachedTree::new();
    fs::write(tree.path("a/b/new"), "").unwrap();
    tree.cache_walk(SystemTime::now());
    assert!(!tree.is_cached());
}

#[test]
fn a_tree_whose_changes_cannot_be_noticed_is_not_cached() {
    let broken: fn(&CachedTree) = |tree| symlink("nowhere", tree.path("broken")).unwrap();
    let worktree: fn(&CachedTree) = |tree| fs::write(tree.path("a/.git"), "gitdir: /elsewhere").unwrap();
    for change in [broken, worktree] {
        let tree = CachedTree::new();
        change(&tree);
        tree.cache_walk(SystemTime::now() + 2 * MARGIN);
        assert!(!tree.is_cached());
    }
}

#[test]
fn a_search_waits_for_an_expected_walk() {
    let tree = CachedTree::new();
    let index = tree.walk();
    let expected = tree.cache.expect(&tree.roots);
    tree.cache.lock().entry = None;
    thread::scope(|scope| {
        let asking = scope.spawn(|| tree.cache.get(&tree.roots, 2));
        expected.keep(&index, SystemTime::now() + 2 * MARGIN, 2);
        assert!(Arc::ptr_eq(&asking.join().unwrap().unwrap(), &index));
    });
}

#[test]
fn other_roots_are_other_walks() {
    let tree = CachedTree::new();
    let other = SearchRoots::new(&[tree.path("a").to_str().unwrap().to_owned()], Path::new("/"));
    assert!(tree.cache.get(&other, 2).is_none());
    assert!(tree.is_cached());
}

#[test]
fn an_unused_walk_is_removed_after_some_time() {
    let tree = CachedTree::new();
    assert!(tree.cache.remove_unused().is_some_and(|left| left <= CACHE_TIME));
    assert!(tree.is_cached());
    let long_ago = Instant::now().checked_sub(CACHE_TIME);
    // A machine that has just started has no such time.
    let Some(long_ago) = long_ago else { return };
    tree.cache.lock().entry.as_mut().unwrap().used = long_ago;
    assert!(tree.cache.remove_unused().is_none());
    assert!(!tree.is_cached());
}
