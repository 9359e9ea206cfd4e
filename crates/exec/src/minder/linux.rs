//! The system calls of a minder on Linux.

use std::{ffi::CStr, io, mem::MaybeUninit};

use rustix::{
    fs::{CWD, Mode, OFlags, RawDir, openat},
    process::{getpid, set_child_subreaper, set_parent_process_death_signal},
};

pub(super) const NEW_PID_NAMESPACE: libc::c_int = libc::CLONE_NEWPID;

/// Forks by the system call itself: the C library's `fork` runs handlers of other libraries and has no namespaces.
pub(super) fn fork(namespaces: libc::c_int) -> io::Result<i32> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork. The child only makes system calls and then executes.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid as i32),
    }
}

/// Forks a child that is going to execute a program. Until then it shares the memory of its parent instead of copying
/// it, and the parent is suspended. Only the child returns. The parent continues in `run_minder_of` and never reads
/// its old stack again, because the child has used it.
#[cfg(target_arch = "x86_64")]
pub(super) fn fork_until_exec(namespaces: libc::c_int) -> io::Result<()> {
    let flags = namespaces | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let result: libc::c_long;
    // SAFETY: the child returns on the stack of its parent, which the kernel holds until the child executes a
    // program or ends. After that the parent calls a function that does not return, with what is in a register;
    // below its stack pointer nothing is in use any more. The registers that a system call changes are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jle 2f",
            "mov rdi, rax",
            "and rsp, -16",
            "call {run_minder_of}",
            "ud2",
            "2:",
            run_minder_of = sym super::run_minder_of,
            inlateout("rax") libc::SYS_clone => result,
            inlateout("rdi") libc::c_long::from(flags) => _,
            inlateout("rsi") 0_i64 => _,
            inlateout("rdx") 0_i64 => _,
            inlateout("r10") 0_i64 => _,
            inlateout("r8") 0_i64 => _,
            out("rcx") _,
            out("r11") _,
        );
    }
    match i32::try_from(-result) {
        Ok(0) => Ok(()),
        Ok(error) => Err(io::Error::from_raw_os_error(error)),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fork_until_exec(namespaces: libc::c_int) -> io::Result<()> {
    match fork(namespaces)? {
        0 => Ok(()),
        child => super::run_minder_of(child.into()),
    }
}

pub(super) fn end_with_parent(signal: libc::c_int) -> io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(signal);
    Ok(set_parent_process_death_signal(signal)?)
}

pub(super) fn adopt_orphans() {
    // Linux has this since version 3.4.
    let _ = set_child_subreaper(Some(getpid()));
}

pub(super) fn next_signal() -> libc::c_int {
    // SAFETY: the set is filled in before it is used, and no information is asked for.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigwaitinfo(&all, std::ptr::null_mut())
    }
}

/// Calls `found` for each child of this process.
pub(super) fn for_each_child(mut found: impl FnMut(i32)) {
    if !listed_children(&mut found) {
        searched_children(found);
    }
}

/// Calls `found` for the children in the kernel's list. Returns false if the kernel has none. A list that does not
/// fit into the buffer is completed in the next round.
fn listed_children(found: &mut impl FnMut(i32)) -> bool {
    let Some((text, length)) = read(c"/proc/thread-self/children") else { return false };
    let text = text.get(..length).unwrap_or_default();
    // The last number may be incomplete.
    let whole = text.iter().rposition(|byte| *byte == b' ').map_or(0, |end| end + 1);
    let numbers = text.get(..whole).unwrap_or_default().split(|byte| *byte == b' ');
    numbers.filter_map(number).for_each(found);
    true
}

/// Calls `found` for the children among all processes of the system.
fn searched_children(mut found: impl FnMut(i32)) {
    let own = getpid().as_raw_pid();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = openat(CWD, c"/proc", flags, Mode::empty()) else { return };
    let mut buffer = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(&proc, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = number(entry.file_name().to_bytes()) else { continue };
        let mut path = [0_u8; 32];
        if parent(stat_path(pid, &mut path)) == Some(own) {
            found(pid);
        }
    }
}

/// Returns `/proc/PID/stat` without an allocation.
fn stat_path(pid: i32, buffer: &mut [u8; 32]) -> &CStr {
    use std::io::Write;
    let _ = write!(buffer.as_mut_slice(), "/proc/{pid}/stat\0");
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
}

/// Returns the parent's id: the second field after the name, which is in parentheses and may contain anything.
fn parent(stat: &CStr) -> Option<i32> {
    let (text, length) = read(stat)?;
    let text = text.get(..length)?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    number(text.get(end + 2..)?.split(|byte| *byte == b' ').nth(1)?)
}

fn read(path: &CStr) -> Option<([u8; 4096], usize)> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0_u8; 4096];
    let length = rustix::io::read(&file, &mut text).ok()?;
    Some((text, length))
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_with_and_without_the_kernels_list() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut listed = Vec::new();
        if listed_children(&mut |pid| listed.push(pid)) {
            assert!(listed.contains(&(child.id() as i32)), "{listed:?}");
        }
        let mut searched = Vec::new();
        searched_children(|pid| searched.push(pid));
        assert!(searched.contains(&(child.id() as i32)), "{searched:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn only_numbers_are_process_ids() {
        assert_eq!(number(b"4711"), Some(4711));
        for name in ["", "self", "12a", "99999999999"] {
            assert_eq!(number(name.as_bytes()), None, "{name}");
        }
    }
}
