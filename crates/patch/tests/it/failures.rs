//! A patch that cannot be applied changes nothing, at whichever step it fails.

use std::{
    cell::Cell,
    fs, io,
    path::{Path, PathBuf},
};

use codicil_patch::{
    ApplyError, DiskFiles, Durability, FileEntry, FileIdentity, FilePlace, FollowLinks, OpenDirectory,
    ReadFiles, WriteFiles, apply,
};

use crate::support::Workspace;

/// The real disk, on which one chosen writing step fails.
struct Faulty {
    steps_left: Cell<Option<usize>>,
}

impl Faulty {
    fn step<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.steps_left.get() {
            Some(0) => {
                self.steps_left.set(None);
                Err(io::Error::other("no more"))
            }
            left => {
                self.steps_left.set(left.map(|left| left - 1));
                work()
            }
        }
    }
}

impl ReadFiles for Faulty {
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>> {
        DiskFiles.look(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        DiskFiles.exists(path)
    }

    fn resolve(&self, path: &Path, follow: FollowLinks) -> io::Result<PathBuf> {
        DiskFiles.resolve(path, follow)
    }
}

type Place = FilePlace<OpenDirectory>;

impl WriteFiles for Faulty {
    type Directory = OpenDirectory;

    fn open_directory(&self, path: &Path) -> io::Result<Option<OpenDirectory>> {
        DiskFiles.open_directory(path)
    }

    fn create_directory(&self, place: &Place) -> io::Result<OpenDirectory> {
        self.step(|| DiskFiles.create_directory(place))
    }

    fn look_at(&self, place: &Place) -> io::Result<Option<FileEntry>> {
        DiskFiles.look_at(place)
    }

    fn identity(&self, place: &Place) -> io::Result<Option<FileIdentity>> {
        DiskFiles.identity(place)
    }

    /// Writes half of the file if it fails, as on a full disk.
    fn create(&self, place: &Place, content: &[u8], like: Option<&Place>) -> io::Result<FileIdentity> {
        self.step(|| DiskFiles.create(place, content, like)).inspect_err(|_| {
            DiskFiles.create(place, &content[..content.len() / 2], like).unwrap();
        })
    }

    fn duplicate(&self, place: &Place, copy: &Place) -> io::Result<()> {
        self.step(|| DiskFiles.duplicate(place, copy))
    }

    fn rename(&self, from: &Place, to: &Place) -> io::Result<()> {
        self.step(|| DiskFiles.rename(from, to))
    }

    fn remove(&self, place: &Place) -> io::Result<()> {
        // Removing temporary files is not a step that may fail; only the patch's own removals are.
        let is_temporary = place.name.to_string_lossy().ends_with(".tmp");
        if is_temporary { DiskFiles.remove(place) } else { self.step(|| DiskFiles.remove(place)) }
    }

    fn remove_directory(&self, place: &Place) -> io::Result<()> {
        DiskFiles.remove_directory(place)
    }

    fn sync(&self, place: &Place) -> io::Result<()> {
        DiskFiles.sync(place)
    }

    fn sync_directory(&self, directory: &OpenDirectory) -> io::Result<()> {
        DiskFiles.sync_directory(directory)
    }
}

const BODY: &str = "*** Add File: new/deep/n\n+n\n*** Update File: a\n-a\n+A\n*** Update File: b\n*** Move to: \
                    moved/b\n-b\n+B\n*** Delete File: c\n*** Delete File: d";

#[test]
fn a_failure_at_any_step_changes_nothing() {
    let mut failed = 0;
    loop {
        let workspace = Workspace::new(&[("a", "a\n"), ("b", "b\n"), ("c", "c\n"), ("d", "d\n")]);
        let before = workspace.tree();
        let plan = workspace.plan(BODY).unwrap();
        let files = Faulty { steps_left: Cell::new(Some(failed)) };
        match apply(&plan, &files, Durability::Cached) {
            Ok(()) => break,
            Err(ApplyError::Io { .. }) => assert_eq!(workspace.tree(), before, "after step {failed}"),
            Err(error) => panic!("step {failed}: {error}"),
        }
        failed += 1;
    }
    // Three directories, three temporary files, one backup, three renames, three removals.
    assert_eq!(failed, 13);
}

#[test]
fn a_file_that_changed_since_planning_is_not_overwritten() {
    let workspace = Workspace::new(&[("a", "a\n"), ("b", "b\n")]);
    let plan = workspace.plan("*** Update File: b\n-b\n+B\n*** Update File: a\n-a\n+A").unwrap();
    workspace.write("a", "mine\n");
    let error = apply(&plan, &DiskFiles, Durability::Cached).unwrap_err();
    assert!(matches!(error, ApplyError::Changed(path) if path == "a"));
    assert_eq!([workspace.read("a"), workspace.read("b")], ["mine\n", "b\n"]);
}

#[test]
fn a_file_that_appeared_since_planning_is_not_overwritten() {
    let workspace = Workspace::new(&[]);
    let plan = workspace.plan("*** Add File: a\n+a").unwrap();
    workspace.write("a", "mine\n");
    assert!(matches!(apply(&plan, &DiskFiles, Durability::Cached), Err(ApplyError::Changed(_))));
    assert_eq!(workspace.read("a"), "mine\n");
}

#[test]
fn a_directory_replaced_by_a_link_is_noticed() {
    let workspace = Workspace::new(&[("in/a", "a\n"), ("out/a", "a\n")]);
    let plan = workspace.plan("*** Update File: in/a\n-a\n+A").unwrap();
    let path = |name| workspace.path().join(name);
    fs::rename(path("in"), path("kept")).unwrap();
    std::os::unix::fs::symlink("out", path("in")).unwrap();
    assert!(matches!(apply(&plan, &DiskFiles, Durability::Cached), Err(ApplyError::LinkOnPath(_))));
    assert_eq!([workspace.read("out/a"), workspace.read("kept/a")], ["a\n", "a\n"]);
}
