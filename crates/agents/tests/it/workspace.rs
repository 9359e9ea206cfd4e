//! `workspace` through its public API: copies, refusals and cleanup.

mod links;
mod races;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use codicil_agents::workspace::{
    BudgetExceededError, BudgetUnit, HostMount, MountedFile, SecurityError, Workspace, WorkspaceBuilder,
    WorkspaceError,
};
use tempfile::TempDir;

/// A host directory with files, and a directory for workspaces beside it.
pub struct Host {
    _folder: TempDir,
    pub root: PathBuf,
    pub workspaces: PathBuf,
}

impl Host {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("host");
        let workspaces = base.join("workspaces");
        fs::create_dir(&workspaces).unwrap();
        fs::create_dir(&root).unwrap();
        let host = Self { _folder: folder, root, workspaces };
        files.iter().for_each(|(path, content)| host.write(path, content));
        host
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn builder(&self) -> WorkspaceBuilder {
        Workspace::builder().allow_root(&self.root).parent(&self.workspaces)
    }

    /// Returns the number of existing workspaces.
    pub fn left(&self) -> usize {
        fs::read_dir(&self.workspaces).unwrap().count()
    }
}

/// Returns every file below a directory with its content.
pub fn tree(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            assert!(!kind.is_symlink(), "a link was copied: {}", path.display());
            if kind.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn files(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

#[tokio::test]
async fn mounts_are_copied_within_their_globs() {
    let host =
        Host::new(&[("src/a.rs", "a"), ("src/deep/b.rs", "b"), ("target/c.rs", "c"), ("notes.md", "n")]);
    let sources = HostMount::new(&host.root).at("code").include("*.rs").exclude("target");
    let notes = HostMount::new(host.root.join("notes.md")).at("docs/README.md").max_bytes(100);
    let workspace =
        host.builder().max_bytes(5000).max_files(100).mount(sources).mount(notes).create().await.unwrap();
    let expected = [("code/src/a.rs", "a"), ("code/src/deep/b.rs", "b"), ("docs/README.md", "n")];
    assert_eq!(tree(workspace.path()), files(&expected));
    let summary = workspace.summary();
    assert!(summary.contains("- `code` from") && summary.contains("2 files, 2 bytes"), "{summary}");
    assert!(summary.contains("1 file, 1 bytes (budget: 100 bytes)"), "{summary}");
    assert!(summary.ends_with("Budget: 3 of 5000 bytes, 3 of 100 files."), "{summary}");
    // Changes to the copies do not reach the host.
    fs::write(workspace.path().join("code/src/a.rs"), "changed").unwrap();
    assert_eq!(fs::read_to_string(host.root.join("src/a.rs")).unwrap(), "a");
    workspace.close().await.unwrap();
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn a_workspace_without_mounts_is_an_empty_directory_for_its_owner_only() {
    let workspace = Workspace::builder().create().await.unwrap();
    assert_eq!(tree(workspace.path()), []);
    assert_eq!(fs::metadata(workspace.path()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(workspace.summary(), "The working directory is empty.");
    let path = workspace.path().to_owned();
    assert!(path.is_absolute());
    drop(workspace);
    assert!(!path.exists());
}

#[tokio::test]
async fn only_executable_files_stay_executable() {
    let host = Host::new(&[("run", "#!/bin/sh"), ("data", "d"), ("locked", "l")]);
    let set = |name: &str, mode| {
        fs::set_permissions(host.root.join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    set("run", 0o4755);
    set("locked", 0o444);
    let workspace = host.builder().mount(HostMount::new(&host.root).at(".")).create().await.unwrap();
    let mode = |name: &str| fs::metadata(workspace.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("run"), mode("data"), mode("locked")), (0o700, 0o600, 0o600));
}

#[tokio::test]
async fn a_preview_lists_files_and_copies_nothing() {
    let host = Host::new(&[("a", "12345"), ("sub/b", "123")]);
    let builder = host.builder().mount(HostMount::new(&host.root).at("x"));
    let previews = builder.preview().await.unwrap();
    assert_eq!(host.left(), 0);
    let file = |path: &str, bytes| MountedFile { path: path.into(), bytes };
    let preview = &previews[0];
    assert_eq!(preview.files, [file("x/a", 5), file("x/sub/b", 3)]);
    assert_eq!((preview.bytes, preview.is_directory, preview.mount_path.to_str()), (8, true, Some("x")));
    let workspace = builder.create().await.unwrap();
    assert_eq!(workspace.mounts(), previews);
    // The same rules apply.
    let error = host.builder().max_bytes(7).mount(HostMount::new(&host.root)).preview().await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Budget(_)), "{error}");
}

#[tokio::test]
async fn exceeded_budgets_leave_nothing_behind() {
    let host = Host::new(&[("a", "12345"), ("b", "12345")]);
    let mount = || HostMount::new(&host.root).at("m");
    let exceeded = |outcome: Result<Workspace, WorkspaceError>| match outcome {
        Err(WorkspaceError::Budget(exceeded)) => exceeded,
        other => panic!("{other:?}"),
    };
    let of_mount = exceeded(host.builder().mount(mount().max_bytes(9)).create().await);
    let expected = BudgetExceededError { mount: Some(host.root.clone()), limit: 9, unit: BudgetUnit::Bytes };
    assert_eq!(of_mount, expected);
    let of_all = exceeded(host.builder().max_bytes(15).mount(mount()).mount(mount().at("n")).create().await);
    assert_eq!((of_all.mount, of_all.limit, of_all.unit), (None, 15, BudgetUnit::Bytes));
    let of_files = exceeded(host.builder().max_files(1).mount(mount()).create().await);
    assert_eq!((of_files.mount, of_files.limit, of_files.unit), (None, 1, BudgetUnit::Files));
    assert_eq!(host.left(), 0, "what failed is removed");
    host.builder().max_bytes(10).max_files(2).mount(mount().max_bytes(10)).create().await.unwrap();
}

/// Security test: `allowed_host_roots` enforced.
#[tokio::test]
async fn allowed_host_roots_are_enforced() {
    let host = Host::new(&[("inside/a", "a"), ("outside/b", "b"), ("inside-not/c", "c")]);
    let refused = async |mount: PathBuf| {
        let builder = Workspace::builder().allow_root(host.root.join("inside")).parent(&host.workspaces);
        match builder.mount(HostMount::new(mount)).create().await {
            Err(WorkspaceError::Security(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    for path in ["outside", "outside/b", "inside-not", "inside/../outside", ""] {
        let path = host.root.join(path);
        assert_eq!(refused(path.clone()).await, SecurityError::OutsideAllowedRoots { path });
    }
    assert_eq!(refused("/etc".into()).await, SecurityError::OutsideAllowedRoots { path: "/etc".into() });
    let inside = HostMount::new(host.root.join("inside"));
    let builder = Workspace::builder().allow_root(host.root.join("inside")).parent(&host.workspaces);
    builder.mount(inside.clone()).create().await.unwrap();
    // Nothing is allowed without roots, or with a root that does not exist.
    for builder in [Workspace::builder(), Workspace::builder().allow_root(host.root.join("absent"))] {
        let error = builder.mount(inside.clone()).create().await.unwrap_err();
        assert!(matches!(error, WorkspaceError::Security(SecurityError::NoAllowedRoots { .. })), "{error}");
    }
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn mount_paths_stay_in_the_workspace() {
    let host = Host::new(&[("a", "a")]);
    for path in ["../out", "x/../../out", "/out"] {
        let error = host.builder().mount(HostMount::new(&host.root).at(path)).create().await.unwrap_err();
        let expected = SecurityError::MountPath { path: path.into() };
        assert!(matches!(&error, WorkspaceError::Security(found) if *found == expected), "{error}");
    }
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn two_files_at_the_same_path_are_an_error() {
    let host = Host::new(&[("one/a", "1"), ("two/a", "2"), ("three/a/b", "3")]);
    for other in ["two", "three"] {
        let mounts = ["one", other].map(|name| HostMount::new(host.root.join(name)).at("m"));
        let [first, second] = mounts;
        let error = host.builder().mount(first).mount(second).create().await.unwrap_err();
        assert!(matches!(error, WorkspaceError::Collision { .. }), "{other}: {error}");
    }
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn equal_workspaces_have_equal_fingerprints() {
    let host = Host::new(&[("a", "1"), ("b", "2")]);
    let builder = || host.builder().mount(HostMount::new(&host.root));
    let first = builder().create().await.unwrap();
    let second = builder().create().await.unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint());
    fs::write(first.path().join("host/a"), "the agent was here").unwrap();
    assert_eq!(first.fingerprint(), second.fingerprint(), "it is about what it was made of");
    let budget = builder().max_bytes(1 << 20).create().await.unwrap();
    assert_ne!(budget.fingerprint(), first.fingerprint());
    host.write("a", "changed");
    assert_ne!(builder().create().await.unwrap().fingerprint(), first.fingerprint());
    host.write("a", "1");
    fs::set_permissions(host.root.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_ne!(builder().create().await.unwrap().fingerprint(), first.fingerprint());
}

#[tokio::test]
async fn a_workspace_with_inaccessible_directories_is_removed() {
    let host = Host::new(&[("sub/a", "1")]);
    for is_closed in [true, false] {
        let workspace = host.builder().mount(HostMount::new(&host.root)).create().await.unwrap();
        let folder = workspace.path().join("host/sub");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
        std::os::unix::fs::symlink(&host.root, workspace.path().join("link")).unwrap();
        if is_closed {
            workspace.close().await.unwrap();
        } else {
            drop(workspace);
        }
        assert_eq!(host.left(), 0);
    }
    assert!(host.root.join("sub/a").exists(), "what a link leads to stays");
}

#[tokio::test]
async fn closing_a_directory_that_was_already_removed_is_not_an_error() {
    let workspace = Workspace::builder().create().await.unwrap();
    fs::remove_dir_all(workspace.path()).unwrap();
    workspace.close().await.unwrap();
}
