//! Starting a process in a new process namespace, where the server itself may make one.
//!
//! A thread that has left its process namespace for its children starts them in the new one. That needs a privilege
//! (`CAP_SYS_ADMIN`), which an ordinary user has only in a user namespace, where the server is not; then a minder makes
//! the namespace (`minder.rs`), at the price of one more process.

#[cfg(target_os = "linux")]
use std::io;

use crate::spawner::SpawnError;

/// Whether these namespaces, flags of `clone`, are a process namespace and no other.
pub(crate) fn can_be_made_directly(namespaces: i32) -> bool {
    cfg!(target_os = "linux") && namespaces == NEW_PROCESSES
}

#[cfg(target_os = "linux")]
const NEW_PROCESSES: i32 = libc::CLONE_NEWPID;
#[cfg(not(target_os = "linux"))]
const NEW_PROCESSES: i32 = i32::MIN;

/// Calls `spawn` so that the process which it starts is the first of a new namespace. Only for the spawning thread,
/// which starts one process at a time and no threads.
#[cfg(target_os = "linux")]
pub(crate) fn with_new_processes<T>(spawn: impl FnOnce() -> Result<T, SpawnError>) -> Result<T, SpawnError> {
    use std::{fs::File, os::fd::AsRawFd};

    let own = File::open("/proc/thread-self/ns/pid")?;
    // SAFETY: takes a number; only later children of this thread are concerned.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    let spawned = spawn();
    // SAFETY: takes numbers. The thread's own namespace can always be entered by the privilege that left it.
    if let Err(error) = check(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) }) {
        tracing::error!(%error, "cannot return to the process namespace of the server");
        return Err(error.into());
    }
    spawned
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn with_new_processes<T>(spawn: impl FnOnce() -> Result<T, SpawnError>) -> Result<T, SpawnError> {
    spawn()
}

#[cfg(target_os = "linux")]
fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
