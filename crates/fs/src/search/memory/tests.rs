use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::search::{
    index::IndexWriter,
    walk::{FoundPath, WalkLimits, walk},
};

/// A tree with a repository in it, and a cache of its walk.
struct Scene {
    memory: WalkMemory,
    roots: SearchRoots,
    place: TempDir,
}

impl Scene {
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
        let scene = Self { memory: WalkMemory::default(), roots, place };
        scene.remember(SystemTime::now() + 2 * MARGIN);
        scene.wait_for_the_clock();
        scene
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
    fn remember(&self, began: SystemTime) {
        self.memory.expect(&self.roots).keep(&self.walk(), began, 2);
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

    fn remembers(&self) -> bool {
        self.memory.recall(&self.roots, 2).is_some()
    }
}

/// A change that must be noticed, with its name.
type Change = (&'static str, fn(&Scene));

const CHANGES: &[Change] = &[
    ("a new file", |scene| fs::write(scene.path("a/b/new"), "").unwrap()),
    ("a new file in the root", |scene| fs::write(scene.path("new"), "").unwrap()),
    ("a removed file", |scene| fs::remove_file(scene.path("a/b/file")).unwrap()),
    ("a renamed directory", |scene| fs::rename(scene.path("a/b"), scene.path("a/c")).unwrap()),
    ("edited rules", |scene| fs::write(scene.path("repo/.gitignore"), "y\n").unwrap()),
    ("new rules", |scene| fs::write(scene.path("a/.ignore"), "y\n").unwrap()),
    ("edited excludes", |scene| fs::write(scene.path("repo/.git/info/exclude"), "y\n").unwrap()),
    ("rules above", |scene| fs::write(scene.place.path().join(".ignore"), "y\n").unwrap()),
    ("a repository above", |scene| fs::create_dir(scene.place.path().join(".git")).unwrap()),
    ("other permissions", |scene| {
        fs::set_permissions(scene.path("a"), fs::Permissions::from_mode(0o700)).unwrap();
    }),
    ("another directory in its place", |scene| {
        fs::rename(scene.path(""), scene.place.path().join("away")).unwrap();
        fs::create_dir(scene.path("")).unwrap();
    }),
    ("no root", |scene| fs::remove_dir_all(scene.path("")).unwrap()),
];

#[test]
fn whatever_a_walk_rests_on_is_noticed_when_it_changes() {
    for (what, change) in CHANGES {
        let scene = Scene::new();
        assert!(scene.remembers(), "before {what}");
        change(&scene);
        assert!(!scene.remembers(), "{what}");
    }
}

#[test]
fn contents_of_files_and_work_of_git_beside_do_not_matter() {
    let scene = Scene::new();
    fs::write(scene.path("a/b/file"), "longer than before").unwrap();
    fs::write(scene.place.path().join("beside"), "").unwrap();
    assert!(scene.remembers());
    let index = scene.memory.recall(&scene.roots, 2).unwrap();
    let paths = |index: &PathIndex| {
        let (chunks, _) = index.chunks();
        let all = chunks.iter().flat_map(|chunk| (0..chunk.len()).filter_map(|at| chunk.get(at, 0)));
        let mut paths: Vec<_> = all.map(|FoundPath { path, .. }| path.to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&index), paths(&scene.walk()));
}

#[test]
fn what_changed_shortly_before_the_walk_is_not_remembered() {
    let scene = Scene::new();
    fs::write(scene.path("a/b/new"), "").unwrap();
    scene.remember(SystemTime::now());
    assert!(!scene.remembers());
}

#[test]
fn a_tree_that_can_change_unseen_is_not_remembered() {
    let broken: fn(&Scene) = |scene| symlink("nowhere", scene.path("broken")).unwrap();
    let worktree: fn(&Scene) = |scene| fs::write(scene.path("a/.git"), "gitdir: /elsewhere").unwrap();
    for change in [broken, worktree] {
        let scene = Scene::new();
        change(&scene);
        scene.remember(SystemTime::now() + 2 * MARGIN);
        assert!(!scene.remembers());
    }
}

#[test]
fn whoever_asks_for_a_walk_that_is_expected_waits_for_it() {
    let scene = Scene::new();
    let index = scene.walk();
    let expected = scene.memory.expect(&scene.roots);
    scene.memory.lock().kept = None;
    thread::scope(|scope| {
        let asking = scope.spawn(|| scene.memory.recall(&scene.roots, 2));
        expected.keep(&index, SystemTime::now() + 2 * MARGIN, 2);
        assert!(Arc::ptr_eq(&asking.join().unwrap().unwrap(), &index));
    });
}

#[test]
fn other_roots_are_other_walks() {
    let scene = Scene::new();
    let other = SearchRoots::new(&[scene.path("a").to_str().unwrap().to_owned()], Path::new("/"));
    assert!(scene.memory.recall(&other, 2).is_none());
    assert!(scene.remembers());
}

#[test]
fn a_walk_is_forgotten_when_it_has_not_been_used_for_a_while() {
    let scene = Scene::new();
    assert!(scene.memory.forget_unused().is_some_and(|left| left <= TIME));
    assert!(scene.remembers());
    let long_ago = Instant::now().checked_sub(TIME);
    // A machine that has just started has no such time.
    let Some(long_ago) = long_ago else { return };
    scene.memory.lock().kept.as_mut().unwrap().used = long_ago;
    assert!(scene.memory.forget_unused().is_none());
    assert!(!scene.remembers());
}
