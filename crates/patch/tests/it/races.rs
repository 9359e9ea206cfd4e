//! Another process replaces a directory by a link: nothing outside of the allowed paths changes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use codicil_patch::{
    ApplyError, DiskFiles, Durability, FileEntry, FileIdentity, FilePlace, FollowLinks, OpenDirectory,
    PatchPlan, ReadFiles, WriteFiles, apply,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::Workspace;

/// Creates a workspace `in` with a directory `in/d`, and a directory `out` with the same content.
fn two_trees(files: &[(String, &str)]) -> Workspace {
    let workspace = Workspace::new(&[]);
    for (name, content) in files {
        workspace.write(&format!("in/d/{name}"), content);
        workspace.write(&format!("out/{name}"), content);
    }
    workspace
}

fn one_of_each() -> Workspace {
    two_trees(&[("a".to_owned(), "a\n"), ("sub/b".to_owned(), "b\n")])
}

/// Moves `in/d` to `in/kept` and replaces it by a link to `out`.
fn swap(workspace: &Workspace) {
    let path = |name: &str| workspace.path().join(name);
    fs::rename(path("in/d"), path("in/kept")).unwrap();
    symlink(path("out"), path("in/d")).unwrap();
}

fn below(workspace: &Workspace, prefix: &str) -> BTreeMap<String, Option<Vec<u8>>> {
    workspace.tree().into_iter().filter(|(name, _)| name.starts_with(prefix)).collect()
}

#[test]
fn a_link_created_after_planning_is_refused() {
    let bodies = [
        "*** Add File: in/d/new\n+x",
        "*** Add File: in/d/deep/er/new\n+x",
        "*** Add File: in/d/a\n+x",
        "*** Update File: in/d/a\n-a\n+A",
        "*** Update File: in/d/sub/b\n-b\n+B",
        "*** Delete File: in/d/a",
        "*** Update File: in/d/a\n*** Move to: in/moved\n-a\n+A",
        "*** Update File: in/d/a\n*** Move to: in/d/moved\n",
        "*** Add File: in/first\n+x\n*** Add File: in/d/new\n+x",
    ];
    for body in bodies {
        let workspace = one_of_each();
        let plan = workspace.plan(body).unwrap();
        swap(&workspace);
        let before = workspace.tree();
        let error = apply(&plan, &DiskFiles, Durability::Cached).unwrap_err();
        assert!(matches!(error, ApplyError::LinkOnPath(_)), "{body}: {error}");
        assert!(error.to_string().contains("a symbolic link has appeared on its path"), "{error}");
        assert_eq!(workspace.tree(), before, "{body}");
    }
}

#[test]
fn a_link_that_replaces_the_file_is_not_followed() {
    let replace = |workspace: &Workspace, name: &str| {
        let path = workspace.path().join(name);
        let _ = fs::remove_file(&path);
        symlink(workspace.path().join("out/a"), path).unwrap();
    };
    let cases = [
        ("*** Add File: in/d/new\n+x", "in/d/new"),
        ("*** Update File: in/d/a\n-a\n+A", "in/d/a"),
        ("*** Delete File: in/d/a", "in/d/a"),
        ("*** Update File: in/d/a\n*** Move to: in/moved\n", "in/d/a"),
        ("*** Update File: in/d/a\n*** Move to: in/moved\n", "in/moved"),
    ];
    for (body, replaced) in cases {
        let workspace = one_of_each();
        let plan = workspace.plan(body).unwrap();
        replace(&workspace, replaced);
        let before = workspace.tree();
        let error = apply(&plan, &DiskFiles, Durability::Cached).unwrap_err();
        assert!(matches!(error, ApplyError::Changed(_)), "{body}: {error}");
        assert_eq!(workspace.tree(), before, "{body}");
    }
}

#[test]
fn a_resolved_path_is_not_read_through_a_link() {
    let workspace = one_of_each();
    let path = |name: &str| workspace.path().canonicalize().unwrap().join(name);
    let place = DiskFiles.resolve(&path("in/d/a"), FollowLinks::Links).unwrap();
    swap(&workspace);
    let is_loop = |error: io::Error| error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    assert!(DiskFiles.look(&place).is_err_and(is_loop));
    assert!(DiskFiles.exists(&place).is_err_and(is_loop));
}

/// The real disk, which swaps `in/d` and `in/l` right before one chosen call.
struct Swapping<'a> {
    workspace: &'a Workspace,
    calls_left: Cell<usize>,
}

impl Swapping<'_> {
    fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.calls_left.get() == 1 {
            exchange(self.workspace);
        }
        self.calls_left.set(self.calls_left.get().saturating_sub(1));
        work()
    }
}

impl ReadFiles for Swapping<'_> {
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>> {
        self.call(|| DiskFiles.look(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(|| DiskFiles.exists(path))
    }

    fn resolve(&self, path: &Path, follow: FollowLinks) -> io::Result<PathBuf> {
        self.call(|| DiskFiles.resolve(path, follow))
    }
}

type Place = FilePlace<OpenDirectory>;

impl WriteFiles for Swapping<'_> {
    type Directory = OpenDirectory;

    fn open_directory(&self, path: &Path) -> io::Result<Option<OpenDirectory>> {
        self.call(|| DiskFiles.open_directory(path))
    }

    fn create_directory(&self, place: &Place) -> io::Result<OpenDirectory> {
        self.call(|| DiskFiles.create_directory(place))
    }

    fn look_at(&self, place: &Place) -> io::Result<Option<FileEntry>> {
        self.call(|| DiskFiles.look_at(place))
    }

    fn identity(&self, place: &Place) -> io::Result<Option<FileIdentity>> {
        self.call(|| DiskFiles.identity(place))
    }

    fn create(&self, place: &Place, content: &[u8], like: Option<&Place>) -> io::Result<FileIdentity> {
        self.call(|| DiskFiles.create(place, content, like))
    }

    fn duplicate(&self, place: &Place, copy: &Place) -> io::Result<()> {
        self.call(|| DiskFiles.duplicate(place, copy))
    }

    fn rename(&self, from: &Place, to: &Place) -> io::Result<()> {
        self.call(|| DiskFiles.rename(from, to))
    }

    fn remove(&self, place: &Place) -> io::Result<()> {
        self.call(|| DiskFiles.remove(place))
    }

    fn remove_directory(&self, place: &Place) -> io::Result<()> {
        self.call(|| DiskFiles.remove_directory(place))
    }

    fn sync(&self, place: &Place) -> io::Result<()> {
        self.call(|| DiskFiles.sync(place))
    }

    fn sync_directory(&self, directory: &OpenDirectory) -> io::Result<()> {
        self.call(|| DiskFiles.sync_directory(directory))
    }
}

#[test]
fn a_swap_before_any_call_redirects_nothing() {
    let body = "*** Add File: in/d/new\n+x\n*** Add File: in/d/deep/er/new\n+x\n*** Update File: in/d/a\n-a\n+A\n\
                *** Update File: in/d/sub/b\n*** Move to: in/d/moved\n*** Delete File: in/d/c";
    let files = [("a".to_owned(), "a\n"), ("sub/b".to_owned(), "b\n"), ("c".to_owned(), "c\n")];
    let mut applied = 0;
    let mut refused = 0;
    for call in 1.. {
        let workspace = two_trees(&files);
        let plan = workspace.plan(body).unwrap();
        symlink(workspace.path().join("out"), workspace.path().join("in/l")).unwrap();
        let inside = below(&workspace, "in/d");
        let outside = below(&workspace, "out");
        let disk = Swapping { workspace: &workspace, calls_left: Cell::new(call) };
        let result = apply(&plan, &disk, Durability::Synced);
        if disk.calls_left.get() > 0 {
            assert!(result.is_ok());
            break;
        }
        exchange(&workspace);
        assert_eq!(below(&workspace, "out"), outside, "call {call}");
        match result {
            Ok(()) => applied += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(below(&workspace, "in/d"), inside, "call {call}: {error}");
            }
        }
    }
    assert!(applied > 0 && refused > 0, "{applied} applied, {refused} refused");
}

fn exchange(workspace: &Workspace) {
    let path = |name: &str| workspace.path().join(name);
    renameat_with(CWD, path("in/d"), CWD, path("in/l"), RenameFlags::EXCHANGE).unwrap();
}

/// Returns whether a policy that allows writing below `in` would allow the plan.
fn is_inside(plan: &PatchPlan, workspace: &Workspace) -> bool {
    let root = workspace.path().canonicalize().unwrap().join("in");
    plan.places().all(|place| place.starts_with(&root))
}

/// Swaps `in/d` and the link `in/l` repeatedly while `work` runs.
fn while_swapping(workspace: &Workspace, work: impl FnOnce()) {
    let directory = workspace.path().join("in/d");
    let link = workspace.path().join("in/l");
    symlink(workspace.path().join("out"), &link).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        work();
        is_over.store(true, Ordering::Relaxed);
    });
    if link.is_dir() && !link.is_symlink() {
        renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    }
}

#[test]
fn swapping_directories_repeatedly_redirects_no_patch() {
    const PATCHES: usize = 150;
    let names = |kind: &str| (0..PATCHES).map(move |number| format!("{kind}{number}")).collect::<Vec<_>>();
    let files: Vec<_> = [names("update"), names("delete"), names("move")].concat();
    let files: Vec<_> = files.into_iter().map(|name| (name, "old\n")).collect();
    let workspace = two_trees(&files);
    let outside = below(&workspace, "out");
    let mut applied = [0_usize; 5];
    while_swapping(&workspace, || {
        for number in 0..PATCHES {
            let bodies = [
                format!("*** Add File: in/d/add{number}\n+new"),
                format!("*** Add File: in/d/deep{number}/er/add\n+new"),
                format!("*** Update File: in/d/update{number}\n-old\n+new"),
                format!("*** Delete File: in/d/delete{number}"),
                format!("*** Update File: in/d/move{number}\n*** Move to: in/d/moved{number}\n-old\n+new"),
            ];
            for (kind, body) in bodies.iter().enumerate() {
                for _ in 0..10 {
                    let plan = workspace.plan(body).ok().filter(|plan| is_inside(plan, &workspace));
                    let Some(plan) = plan else { continue };
                    if apply(&plan, &DiskFiles, Durability::Cached).is_ok() {
                        applied[kind] += 1;
                        break;
                    }
                }
            }
        }
    });
    assert_eq!(below(&workspace, "out"), outside);
    assert!(applied.iter().all(|&count| count > 0), "{applied:?}");
    let is_temporary = |name: &String| Path::new(name).extension().is_some_and(|end| end == "tmp");
    assert!(!workspace.tree().keys().any(is_temporary));
    // Applied changes are in the workspace, at whichever path its directory was.
    let written = below(&workspace, "in/d/add").len();
    assert_eq!(written, applied[0]);
}
