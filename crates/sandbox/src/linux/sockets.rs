//! Sockets in the file system behind which other programs listen.
//!
//! A command can connect to a socket in the file system only if it has a network and a root is such a socket. Then
//! the others have to be covered: neither read-only mounts nor Landlock (before Linux 7.1) keep it from
//! connecting to them, and many a daemon does as it is told. The kernel lists those of our network
//! namespace. Those of others, as containers
//! have them, are known by name only; those that were bound by a relative path, or are bound later, are not
//! found.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use crate::access::{RootRole, WritableRoot};

/// More than a busy machine has. It bounds the time to start a command.
const MOST: usize = 4_096;

/// Daemons that give away the machine. They may listen in another network namespace, or on a named pipe.
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

/// What the environment says about the user's agents and daemons.
const VARIABLES: [&str; 4] = ["SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"];

/// The sockets to cover, and whether that is all of them. The server's own are covered wherever they lie.
pub(super) fn find(roots: &[WritableRoot], own: &[PathBuf]) -> (Vec<PathBuf>, bool) {
    let listed = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let candidates = bound(&listed).chain(KNOWN.iter().map(PathBuf::from)).chain(
        VARIABLES.iter().filter_map(std::env::var_os).filter_map(|value| in_variable(value.to_str()?)),
    );
    // The same socket may go by several names, such as below /run and /var/run.
    let sockets: BTreeSet<PathBuf> = candidates
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| fs::metadata(path).is_ok_and(|found| is_ear(found.file_type())))
        .filter(|path| !is_ours(roots, path))
        .collect();
    let complete = sockets.len() <= MOST;
    (own.iter().cloned().chain(sockets).take(MOST).collect(), complete)
}

fn is_ear(kind: fs::FileType) -> bool {
    kind.is_socket() || kind.is_fifo()
}

/// Scratch directories do not count: strangers' sockets lie there too.
fn is_ours(roots: &[WritableRoot], socket: &Path) -> bool {
    roots.iter().any(|root| root.role != RootRole::Scratch && socket.starts_with(&root.path))
}

/// The paths in the kernel's table, whose last column is empty for most and begins with `@` for abstract ones.
fn bound(table: &str) -> impl Iterator<Item = PathBuf> {
    let path = |line: &str| {
        let start = line.find(" /")? + 1;
        line.get(start..).map(PathBuf::from)
    };
    table.lines().filter_map(path)
}

/// `unix:///run/x`, `unix:path=/run/x,guid=…` or the path itself.
fn in_variable(value: &str) -> Option<PathBuf> {
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
        assert_eq!(bound(table).collect::<Vec<_>>(), [PathBuf::from("/run/some dir/socket")]);
    }

    #[test]
    fn variables_name_sockets_in_three_ways() {
        let check =
            |value, expected: Option<&str>| assert_eq!(in_variable(value), expected.map(PathBuf::from));
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
