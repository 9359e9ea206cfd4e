//! Finds the sockets in the file system on which other programs listen.
//!
//! A command can connect to sockets in the file system only if it has a network and a writable root is such a socket.
//! Then the other sockets must be covered: neither read-only mounts nor Landlock (before Linux 7.1) prevent a connection,
//! and many daemons obey every client. The kernel lists the sockets of the server's network namespace. Those of other
//! namespaces, such as those of containers, are known by name only. Sockets that were bound by a relative path, or are
//! bound later, are not found.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use crate::access::{RootRole, WritableRoot};

/// The most sockets covered, more than a busy machine has. Limits the time to start a command.
const MAX_SOCKETS: usize = 4_096;

/// Sockets and pipes of daemons that control the machine. They may be in another network namespace, or be named pipes.
const KNOWN: [&str; 10] = [
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/libvirt/libvirt-sock",
    "/run/snapd.socket",
    "/run/initctl",
    "/run/systemd/initctl/fifo",
];

/// Environment variables that name sockets of the user's agents and daemons.
const VARIABLES: [&str; 4] = ["SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"];

/// Returns the sockets to cover, and whether these are all. The `server_sockets` are covered even inside a root.
pub(super) fn find(roots: &[WritableRoot], server_sockets: &[PathBuf]) -> (Vec<PathBuf>, bool) {
    let listed = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let candidates = listed_paths(&listed).chain(KNOWN.iter().map(PathBuf::from)).chain(
        VARIABLES.iter().filter_map(std::env::var_os).filter_map(|value| path_in_variable(value.to_str()?)),
    );
    // A socket may have several names, such as below /run and /var/run.
    let sockets: BTreeSet<PathBuf> = candidates
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| fs::metadata(path).is_ok_and(|found| is_endpoint(found.file_type())))
        .filter(|path| !is_in_own_root(roots, path))
        .collect();
    let is_complete = sockets.len() <= MAX_SOCKETS;
    (server_sockets.iter().cloned().chain(sockets).take(MAX_SOCKETS).collect(), is_complete)
}

fn is_endpoint(kind: fs::FileType) -> bool {
    kind.is_socket() || kind.is_fifo()
}

/// Returns whether a socket is inside a root other than a scratch directory, where other users have sockets too.
fn is_in_own_root(roots: &[WritableRoot], socket: &Path) -> bool {
    roots.iter().any(|root| root.role != RootRole::Scratch && socket.starts_with(&root.path))
}

/// Returns the paths in the kernel's table. Its last column is empty for most sockets, and begins with `@` for abstract
/// ones.
fn listed_paths(table: &str) -> impl Iterator<Item = PathBuf> {
    let path = |line: &str| {
        let start = line.find(" /")? + 1;
        line.get(start..).map(PathBuf::from)
    };
    table.lines().filter_map(path)
}

/// Returns the path in `unix:///run/x`, in `unix:path=/run/x,guid=…`, or the value itself.
fn path_in_variable(value: &str) -> Option<PathBuf> {
    let path = value.strip_prefix("unix://").or_else(|| value.strip_prefix("unix:path=")).unwrap_or(value);
    let path = path.split(',').next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17021 /run/some dir/socket\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17022 @/tmp/abstract\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 17023\n";
        assert_eq!(listed_paths(table).collect::<Vec<_>>(), [PathBuf::from("/run/some dir/socket")]);
    }

    #[test]
    fn variables_name_sockets_in_three_ways() {
        let check =
            |value, expected: Option<&str>| assert_eq!(path_in_variable(value), expected.map(PathBuf::from));
        check("unix:///run/docker.sock", Some("/run/docker.sock"));
        check("unix:path=/run/user/1/bus,guid=0", Some("/run/user/1/bus"));
        check("/tmp/ssh-x/agent.1", Some("/tmp/ssh-x/agent.1"));
        check("tcp://localhost:2375", None);
    }

    #[test]
    fn a_listener_outside_the_roots_is_found_and_one_inside_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let socket = path.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let root = |role| [WritableRoot { path: path.clone(), role }];
        assert!(find(&[], &[]).0.contains(&socket));
        assert!(find(&root(RootRole::Scratch), &[]).0.contains(&socket));
        assert!(!find(&root(RootRole::Workspace), &[]).0.contains(&socket));
        assert!(find(&root(RootRole::Workspace), std::slice::from_ref(&socket)).0.contains(&socket));
    }
}
