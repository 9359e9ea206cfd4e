//! Host files that change while they are being copied.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use codicil_agents::workspace::{HostMount, SymlinkPolicy, WorkspaceError};

use super::{Host, tree};

/// Repeatedly replaces a directory of the mount with a link to a secret while workspaces are created.
async fn swapped_while_copying(symlinks: SymlinkPolicy) {
    let host = Host::new(&[("mount/swap/key", "harmless"), ("mount/z", "z"), ("secret/key", "s3cret")]);
    let swap = host.root.join("mount/swap");
    let aside = host.root.join("aside");
    let secret = host.root.join("secret");
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = thread::spawn({
        let stop = stop.clone();
        move || {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&swap, &aside).unwrap();
                symlink(&secret, &swap).unwrap();
                fs::remove_file(&swap).unwrap();
                fs::rename(&aside, &swap).unwrap();
            }
        }
    });
    for _ in 0..200 {
        let mount = HostMount::new(host.root.join("mount")).symlinks(symlinks);
        let builder = codicil_agents::workspace::Workspace::builder()
            .allow_root(host.root.join("mount"))
            .parent(&host.workspaces);
        match builder.mount(mount).create().await {
            Ok(workspace) => {
                let copied = tree(workspace.path());
                assert!(copied.iter().all(|(_, content)| content != "s3cret"), "{copied:?}");
            }
            // The replacement was detected, or the file vanished meanwhile.
            Err(WorkspaceError::Security(_) | WorkspaceError::Io { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(host.left(), 0);
}

#[tokio::test]
async fn a_directory_that_becomes_a_link_is_not_followed() {
    swapped_while_copying(SymlinkPolicy::Skip).await;
}

#[tokio::test]
async fn a_link_that_is_followed_cannot_be_swapped_for_another() {
    swapped_while_copying(SymlinkPolicy::Follow).await;
}

#[tokio::test]
async fn dropping_the_future_leaves_no_workspace_behind() {
    let many: Vec<_> = (0..500).map(|number| format!("f{number}")).collect();
    let named: Vec<_> = many.iter().map(|name| (name.as_str(), "content")).collect();
    let host = Host::new(&named);
    for _ in 0..20 {
        let creating = tokio::spawn(host.builder().mount(HostMount::new(&host.root)).create());
        tokio::task::yield_now().await;
        creating.abort();
        // The workspace was complete, or the future was dropped.
        drop(creating.await);
    }
    let gone = async {
        while host.left() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
}
