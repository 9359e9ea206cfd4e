//! System calls that no library wraps, or wraps only with an allocation. All of them may be made between `fork`
//! and `exec`.

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
/// Every bit set and locked, but the one that keeps capabilities, which is locked unset.
const SECUREBITS: c_long = 0b1110_1111;

/// Makes a mount and all below it read-only: a path from the root, or what `fd` stands for if it is empty.
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

/// Leaves the namespaces that `flags` name for new ones.
pub(super) fn unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: no memory is involved. CLONE_FILES and CLONE_VM, which could surprise, are never asked for.
    check(unsafe { libc::unshare(flags) }.into())
}

/// The version of the Landlock interface.
pub(super) fn landlock_abi() -> Result<i32> {
    // SAFETY: with this flag the kernel wants a null pointer and a size of 0.
    let version = unsafe {
        let none = std::ptr::null::<u8>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, LANDLOCK_CREATE_RULESET_VERSION)
    };
    check(version)?;
    i32::try_from(version).map_err(|_| Errno::RANGE)
}

/// Allows `rights` on all that is beneath `directory`.
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

/// Puts this thread and what it becomes under the rules, for ever.
pub(super) fn landlock_enter(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) })
}

/// Whether the kernel has seccomp filters that answer with an error.
pub(super) fn seccomp_available() -> Result<()> {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: action outlives the call, which only reads it.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0u32, &raw const action)
    })
}

/// Every file but the standard three is closed when the command starts. They stay open until then, since the
/// library's own channel for errors is among them.
pub(super) fn close_on_exec() -> Result<()> {
    // SAFETY: no memory is involved, and marking a file closes nothing.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOSE_RANGE_CLOEXEC) })
}

/// No exec, not even as root, can bring a capability back. Fails with `EPERM` where there was none to begin
/// with.
pub(super) fn forget_capabilities() -> Result<()> {
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

/// Has the loopback of this network namespace work. `socket` is any of an internet family.
pub(super) fn raise_loopback(socket: RawFd) -> Result<()> {
    // SAFETY: a structure of plain numbers, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, letter) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *place = *letter as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: request outlives the call, which reads it.
    check(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) }.into())
}

/// The working directory, in a buffer without an allocation.
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
