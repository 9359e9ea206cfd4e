//! System calls that no library wraps, or wraps only with an allocation. All of them may be made between `fork` and
//! `exec`.

use std::{
    ffi::{CStr, c_long},
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

use rustix::io::{Errno, Result};

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// `struct landlock_path_beneath_attr`, which the kernel declares packed.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: RawFd,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
const LANDLOCK_CREATE_RULESET_VERSION: c_long = 1;
const LANDLOCK_RULE_PATH_BENEATH: c_long = 1;
const CLOSE_RANGE_CLOEXEC: c_long = 4;
/// Every bit set and locked, except the one that keeps capabilities, which is unset and locked.
const SECUREBITS: c_long = 0b1110_1111;

/// Makes a mount and all mounts below it read-only: the one at `path`, or the one of `fd` if `path` is empty.
pub(super) fn make_read_only(fd: RawFd, path: &CStr) -> Result<()> {
    let attr = MountAttr { set: MOUNT_ATTR_RDONLY, clear: 0, propagation: 0, userns_fd: 0 };
    let empty = if path.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: path and attr outlive the call, and the size is that of attr.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            libc::AT_RECURSIVE | empty,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
}

/// Moves the process into new namespaces, which `flags` name.
pub(super) fn unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: no memory is involved. No caller passes CLONE_FILES or CLONE_VM.
    check(unsafe { libc::unshare(flags) }.into())
}

/// Returns the version of the kernel's Landlock interface.
pub(super) fn landlock_abi() -> Result<i32> {
    // SAFETY: with this flag the kernel wants a null pointer and a size of 0.
    let version = unsafe {
        let none = std::ptr::null::<u8>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, LANDLOCK_CREATE_RULESET_VERSION)
    };
    check(version)?;
    i32::try_from(version).map_err(|_| Errno::RANGE)
}

/// Allows `rights` on everything beneath `directory`.
pub(super) fn landlock_allow(ruleset: BorrowedFd<'_>, directory: BorrowedFd<'_>, rights: u64) -> Result<()> {
    let rule = PathBeneath { allowed: rights, parent: directory.as_raw_fd() };
    // SAFETY: rule outlives the call and has the layout of this rule type.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            LANDLOCK_RULE_PATH_BENEATH,
            &raw const rule,
            0u32,
        )
    })
}

/// Restricts this thread, and every program it executes, by the rules. Cannot be undone.
pub(super) fn landlock_enter(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) })
}

/// Returns an error unless the kernel has seccomp filters that can return an error number.
pub(super) fn seccomp_available() -> Result<()> {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: action outlives the call, which only reads it.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0u32, &raw const action)
    })
}

/// Marks every file except the standard three to be closed on `exec`. They stay open until then, because the standard
/// library's pipe for spawn errors is among them.
pub(super) fn close_on_exec() -> Result<()> {
    // SAFETY: no memory is involved, and marking a file closes nothing.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOSE_RANGE_CLOEXEC) })
}

/// Empties the capability bounding set and locks the secure bits, so that no `exec`, not even as root, regains a
/// capability. Fails with `EPERM` if the process has no capabilities.
pub(super) fn lock_capabilities() -> Result<()> {
    for capability in 0..64 as c_long {
        // SAFETY: these two options take numbers only.
        match check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }.into()) {
            Err(Errno::INVAL) => break,
            other => other?,
        }
    }
    // SAFETY: as above.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0) }.into())
}

/// Enables the loopback interface of this network namespace. `socket` is any socket of an internet family.
pub(super) fn raise_loopback(socket: RawFd) -> Result<()> {
    // SAFETY: a structure of plain numbers, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (target, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *target = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: request outlives the call, which reads it.
    check(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) }.into())
}

/// Returns the working directory in `buffer`, without an allocation.
pub(super) fn current_directory(buffer: &mut [u8]) -> Result<&CStr> {
    // SAFETY: the kernel writes at most as much as the buffer holds.
    check(unsafe { libc::syscall(libc::SYS_getcwd, buffer.as_mut_ptr(), buffer.len()) })?;
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::NAMETOOLONG)
}

fn check(result: c_long) -> Result<()> {
    if result >= 0 {
        return Ok(());
    }
    // SAFETY: errno belongs to this thread.
    Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}
