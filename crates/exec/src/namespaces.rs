//! Starts a process in a new PID namespace, where the server itself may create one.
//!
//! After `unshare(CLONE_NEWPID)`, the children of a thread start in the new namespace. That needs `CAP_SYS_ADMIN`, which
//! an ordinary user has only inside a user namespace. Without it, a minder creates the namespace (`minder.rs`), which
//! costs one more process.

#[cfg(target_os = "linux")]
use std::io;

use crate::spawner::SpawnError;

/// Returns whether these flags of `clone` name a PID namespace and no other namespace.
pub(crate) fn can_be_made_directly(namespaces: i32) -> bool {
    cfg!(target_os = "linux") && namespaces == PID_NAMESPACE
}

#[cfg(target_os = "linux")]
const PID_NAMESPACE: i32 = libc::CLONE_NEWPID;
#[cfg(not(target_os = "linux"))]
const PID_NAMESPACE: i32 = i32::MIN;

/// Calls `spawn` so that the process it starts is the first of a new PID namespace. Must be called on the spawning
/// thread only, which starts one process at a time and no threads.
#[cfg(target_os = "linux")]
pub(crate) fn with_new_pid_namespace<T>(
    spawn: impl FnOnce() -> Result<T, SpawnError>,
) -> Result<T, SpawnError> {
    use std::{fs::File, os::fd::AsRawFd};

    let own = File::open("/proc/thread-self/ns/pid")?;
    // SAFETY: takes a number; only later children of this thread are concerned.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    let spawned = spawn();
    // SAFETY: takes numbers. The thread's own namespace can always be entered by the privilege that left it.
    if let Err(error) = check(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) }) {
        tracing::error!(%error, "failed to return to the server's PID namespace");
        return Err(error.into());
    }
    spawned
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn with_new_pid_namespace<T>(
    spawn: impl FnOnce() -> Result<T, SpawnError>,
) -> Result<T, SpawnError> {
    spawn()
}

#[cfg(target_os = "linux")]
fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
