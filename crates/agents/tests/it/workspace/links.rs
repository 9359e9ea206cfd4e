//! Links and special files.

use std::{fs, os::unix::fs::symlink, os::unix::net::UnixListener};

use codicil_agents::workspace::{HostMount, SecurityError, SymlinkPolicy, Workspace, WorkspaceError};

use super::{Host, files, tree};

/// Returns a host with links of every kind, and a secret beside the allowed root.
fn linked() -> Host {
    let host = Host::new(&[("tree/a", "a"), ("tree/sub/b", "b"), ("other/c", "c"), ("secret/key", "s3cret")]);
    let tree = host.root.join("tree");
    symlink("a", tree.join("to-file")).unwrap();
    symlink("sub", tree.join("to-folder")).unwrap();
    symlink("..", tree.join("sub/circle")).unwrap();
    symlink("nowhere", tree.join("dangling")).unwrap();
    symlink("../other/c", tree.join("to-other")).unwrap();
    host
}

async fn create(host: &Host, root: &str, symlinks: SymlinkPolicy) -> Result<Workspace, WorkspaceError> {
    let mount = HostMount::new(host.root.join("tree")).at(".").symlinks(symlinks);
    Workspace::builder().allow_root(host.root.join(root)).parent(&host.workspaces).mount(mount).create().await
}

#[tokio::test]
async fn links_are_left_out_and_counted() {
    let host = linked();
    symlink("/etc/passwd", host.root.join("tree/escape")).unwrap();
    let workspace = create(&host, "tree", SymlinkPolicy::Skip).await.unwrap();
    assert_eq!(tree(workspace.path()), files(&[("a", "a"), ("sub/b", "b")]));
    assert_eq!(workspace.mounts()[0].skipped_links, 6);
}

#[tokio::test]
async fn links_may_be_refused() {
    let host = linked();
    let error = create(&host, "tree", SymlinkPolicy::Refuse).await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Security(SecurityError::Link { .. })), "{error}");
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn links_are_followed_only_within_the_allowed_roots() {
    let host = linked();
    let workspace = create(&host, "", SymlinkPolicy::Follow).await.unwrap();
    let expected = [("a", "a"), ("sub/b", "b"), ("to-file", "a"), ("to-folder/b", "b"), ("to-other", "c")];
    assert_eq!(tree(workspace.path()), files(&expected));
    drop(workspace);

    let error = create(&host, "tree", SymlinkPolicy::Follow).await.unwrap_err();
    let path = host.root.join("tree/to-other");
    let expected = SecurityError::LinkEscapes { path };
    assert!(matches!(&error, WorkspaceError::Security(found) if *found == expected), "{error}");
    assert_eq!(host.left(), 0, "not even what was copied before");
}

#[tokio::test]
async fn a_mount_that_is_a_link_is_resolved_before_the_check() {
    let host = linked();
    let door = host.root.join("tree/door");
    symlink("../secret", &door).unwrap();
    let builder = Workspace::builder().allow_root(host.root.join("tree")).mount(HostMount::new(&door));
    let error = builder.create().await.unwrap_err();
    let expected = SecurityError::OutsideAllowedRoots { path: door.clone() };
    assert!(matches!(&error, WorkspaceError::Security(found) if *found == expected), "{error}");
    // A link within the path leads out of the root as well.
    let below =
        Workspace::builder().allow_root(host.root.join("tree")).mount(HostMount::new(door.join("key")));
    let error = below.create().await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Security(SecurityError::OutsideAllowedRoots { .. })), "{error}");
}

#[tokio::test]
async fn pipes_and_sockets_are_left_out_without_blocking() {
    let host = Host::new(&[("a", "a")]);
    let _socket = UnixListener::bind(host.root.join("socket")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(host.root.join("pipe")).status();
    let expected = if made.is_ok_and(|status| status.success()) { 2 } else { 1 };
    let workspace = host.builder().mount(HostMount::new(&host.root).at(".")).create().await.unwrap();
    assert_eq!(tree(workspace.path()), files(&[("a", "a")]));
    assert_eq!(workspace.mounts()[0].skipped_special, expected);
}

#[tokio::test]
async fn a_tree_that_is_too_deep_is_refused() {
    let host = Host::new(&[]);
    let deep = (0..200).fold(host.root.clone(), |path, _| path.join("d"));
    fs::create_dir_all(&deep).unwrap();
    let error = host.builder().mount(HostMount::new(&host.root)).create().await.unwrap_err();
    assert!(matches!(error, WorkspaceError::Security(SecurityError::TooDeep { .. })), "{error}");
    assert_eq!(host.left(), 0);
}
