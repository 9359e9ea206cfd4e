//! The minder: the process between the server and a command that keeps every descendant of the command within reach.
//!
//! A command can leave its process group and its session, and a process may outlive its parent. It cannot leave the
//! minder: the kernel reparents orphans to the nearest ancestor that asked for them (`PR_SET_CHILD_SUBREAPER`) or, in a
//! PID namespace, to the namespace's first process. So the minder can always find and kill the remaining processes. It
//! does so when the server signals it ([`END_SIGNAL`]), when the server has died (the same signal, as the parent-death
//! signal), and, if it has no status to report, when the command has exited.
//!
//! [`become_minder`] is called between `fork` and `exec`. The calling process becomes the minder and never returns; its
//! new child returns and goes on to become the command. A sandbox that uses a PID namespace calls [`become_init`] in
//! that child, which forks once more: the first process of the namespace minds every process in it, and the kernel kills
//! the whole namespace when that process ends. A server that may create PID namespaces itself (`namespaces.rs`) starts
//! that first process directly, without a minder outside, because killing it is enough.
//!
//! Written with raw system calls: the server has many threads, and the minder is a copy of one of them. No code here
//! allocates, locks or panics.

use std::{
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::process::{Pid, Signal, getpid, getppid};

/// The signal on which a minder kills everything and exits.
pub(crate) const END_SIGNAL: Signal = Signal::USR2;
const END_SIGNAL_NUMBER: libc::c_int = libc::SIGUSR2;

/// The pipe for the command's status. Set in a process that has one thread, and inherited by its children. A static,
/// because neither the sandbox's steps nor a parent that has lost its stack can take it as an argument.
static STATUS_PIPE: AtomicI32 = AtomicI32::new(NO_PIPE);
const NO_PIPE: RawFd = -1;

/// The settings of a minder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinderTask {
    /// New namespaces for the command, as flags of `clone`.
    pub namespaces: libc::c_int,
    /// The pipe to which the command's status is written, as the four bytes of `waitpid`. The descendants of the
    /// command then live until the minder is signalled. Without a pipe, the minder kills them when the command exits,
    /// and exits with its code.
    pub status_pipe: Option<RawFd>,
    /// The parent process whose end also ends the command.
    pub owner: Option<Pid>,
}

/// Makes the calling process the minder of a new child. Only the child returns.
pub(crate) fn become_minder(task: &MinderTask) -> io::Result<()> {
    let mask = block_signals();
    if let Some(owner) = task.owner {
        end_with_parent(END_SIGNAL_NUMBER)?;
        // The owner may have ended before the signal was requested.
        if getppid() != Some(owner) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    adopt_orphans();
    let minder = getpid();
    STATUS_PIPE.store(task.status_pipe.unwrap_or(NO_PIPE), Ordering::Relaxed);
    if task.namespaces & NEW_PID_NAMESPACE == 0 {
        fork_until_exec(task.namespaces)?;
        set_mask(&mask);
        end_with_parent(libc::SIGKILL)?;
        if getppid() != Some(minder) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        return Ok(());
    }
    match fork(task.namespaces)? {
        0 => {
            set_mask(&mask);
            end_with_parent(libc::SIGKILL)
        }
        // The first process of the namespace reports the status itself.
        child => run_minder(child, None),
    }
}

/// The status pipe of the first process of a PID namespace that the server started without a minder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitReport {
    /// The end to which the command's status is written.
    pub pipe: RawFd,
    /// The server's end, which the new process closes.
    pub server_end: RawFd,
}

/// Prepares the first process of a PID namespace for [`become_init`].
pub(crate) fn start_as_init(status_pipe: &InitReport) -> io::Result<()> {
    STATUS_PIPE.store(status_pipe.pipe, Ordering::Relaxed);
    end_with_parent(libc::SIGKILL)?;
    // The server may have ended before the signal was requested. Its process cannot be seen from within the namespace,
    // but without it the pipe has no reader.
    let mut pipe = libc::pollfd { fd: status_pipe.pipe, events: 0, revents: 0 };
    // SAFETY: plain system calls; the descriptor is this process's own copy.
    unsafe {
        libc::close(status_pipe.server_end);
        libc::poll(&mut pipe, 1, 0);
    }
    match pipe.revents & libc::POLLERR {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Makes the calling process, the first of a PID namespace, the minder of a new child, which becomes the command. Only
/// the child returns. Called by a sandbox between `fork` and `exec`.
pub fn become_init() -> io::Result<()> {
    let mask = block_signals();
    fork_until_exec(0)?;
    set_mask(&mask);
    Ok(())
}

/// Runs the minder in the parent after [`fork_until_exec`].
extern "C" fn run_minder_of(child: libc::c_long) -> ! {
    let status_pipe = STATUS_PIPE.load(Ordering::Relaxed);
    run_minder(child as i32, (status_pipe != NO_PIPE).then_some(status_pipe))
}

/// Adds a minder to a command that is spawned without this crate's [`Process`](crate::Process). The minder kills all
/// descendants when the command exits, exits with its code, passes SIGTERM and SIGHUP on to it, and starts it in new
/// `namespaces` (flags of `clone`). With `ends_with_parent` it also kills everything when the *thread* that spawned the
/// command ends; the kernel has no such signal for a process. Call this before adding other `pre_exec` steps.
pub fn attach_minder(command: &mut Command, namespaces: libc::c_int, ends_with_parent: bool) {
    let task = MinderTask { namespaces, status_pipe: None, owner: ends_with_parent.then(getpid) };
    // SAFETY: `become_minder` makes only async-signal-safe calls.
    unsafe { command.pre_exec(move || become_minder(&task)) };
}

/// Exits at once, without the server's exit handlers.
fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Exits the process when it unwinds: not even a panic may let a minder continue as a second server.
struct ExitOnPanic;

impl Drop for ExitOnPanic {
    fn drop(&mut self) {
        exit_now(1)
    }
}

/// Runs the minder until nothing is left to mind. Every signal is blocked.
fn run_minder(child: i32, status_pipe: Option<RawFd>) -> ! {
    let _exit = ExitOnPanic;
    release_inherited(status_pipe);
    loop {
        reap_ended(child, status_pipe);
        match next_signal() {
            END_SIGNAL_NUMBER => {
                kill_everything();
                exit_now(128 + libc::SIGKILL)
            }
            // Sent by a parent that knows only the minder, and meant for the command. The child has not been reaped, so
            // its id is still its own.
            signal @ (libc::SIGTERM | libc::SIGHUP) if status_pipe.is_none() => send_signal(child, signal),
            _ => {}
        }
    }
}

/// Reaps every process that has ended. Exits if nothing is left to mind.
fn reap_ended(child: i32, status_pipe: Option<RawFd>) {
    loop {
        match (reap(libc::WNOHANG), status_pipe) {
            (ReapedProcess::Process(pid, status), Some(status_pipe)) if pid == child => {
                write_status(status_pipe, status)
            }
            (ReapedProcess::Process(pid, status), None) if pid == child => {
                kill_everything();
                exit_now(exit_code(status))
            }
            (ReapedProcess::Process(..), _) => {}
            (ReapedProcess::NotYet, _) => return,
            (ReapedProcess::NoChildren, _) => exit_now(0),
        }
    }
}

/// Kills children until there are none. The children of a killed process become the minder's own, so this takes several
/// rounds.
fn kill_everything() {
    loop {
        for_each_child(|child| send_signal(child, libc::SIGKILL));
        if let ReapedProcess::NoChildren = reap(0) {
            return;
        }
        while let ReapedProcess::Process(..) = reap(libc::WNOHANG) {}
    }
}

enum ReapedProcess {
    Process(i32, i32),
    NotYet,
    NoChildren,
}

fn reap(options: libc::c_int) -> ReapedProcess {
    loop {
        let mut status = 0;
        // SAFETY: status is valid for the call.
        match unsafe { libc::waitpid(-1, &mut status, options) } {
            0 => return ReapedProcess::NotYet,
            -1 if errno() == libc::EINTR => {}
            -1 => return ReapedProcess::NoChildren,
            pid => return ReapedProcess::Process(pid, status),
        }
    }
}

/// Converts a status of `waitpid` to the exit code that a shell would report.
fn exit_code(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

fn write_status(status_pipe: RawFd, status: i32) {
    let bytes = status.to_ne_bytes();
    // SAFETY: the bytes are valid for their length. SIGPIPE is blocked, so a server that does not read does not end the
    // minder before its descendants.
    while unsafe { libc::write(status_pipe, bytes.as_ptr().cast(), bytes.len()) } == -1
        && errno() == libc::EINTR
    {}
}

/// Signals one process, never a group, which 0 and negative numbers stand for.
fn send_signal(pid: i32, signal: libc::c_int) {
    if pid > 0 {
        // SAFETY: takes numbers. Only children of this process are signalled, which no other process can reap.
        unsafe { libc::kill(pid, signal) };
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Blocks every signal and returns the mask from before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: plain calls on values of this function.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask was filled in by `block_signals`.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Leaves the server's working directory and closes its files: a minder must not keep a pipe, a lock or a mount busy.
fn release_inherited(kept: Option<RawFd>) {
    let _ = rustix::process::chdir(c"/");
    #[cfg(target_os = "linux")]
    // SAFETY: sets the name of this process.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"codicil-minder".as_ptr());
    }
    match kept {
        None => close_range(0, RawFd::MAX),
        Some(kept) => {
            close_range(0, kept - 1);
            close_range(kept + 1, RawFd::MAX);
        }
    }
}

/// Closes the descriptors from `first` to `last`.
fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    #[cfg(target_os = "linux")]
    // SAFETY: closing what the server has open affects this process alone.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536) as RawFd;
        (first..=last.min(most)).for_each(|fd| _ = libc::close(fd));
    }
}

#[cfg(target_os = "linux")]
use linux::{
    NEW_PID_NAMESPACE, adopt_orphans, end_with_parent, for_each_child, fork, fork_until_exec, next_signal,
};
#[cfg(not(target_os = "linux"))]
use other::{
    NEW_PID_NAMESPACE, adopt_orphans, end_with_parent, for_each_child, fork, fork_until_exec, next_signal,
};

#[cfg(target_os = "linux")]
mod linux {
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
}

/// Systems without parent-death signals and without reparenting to a subreaper: the minder waits for the end of the
/// server through `kqueue`, and kills the command's process group. Processes that leave that group are not reached.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::{
        io,
        sync::atomic::{AtomicI32, Ordering},
    };

    pub(super) const NEW_PID_NAMESPACE: libc::c_int = 0;

    /// The id of the command, which leads its process group.
    static CHILD: AtomicI32 = AtomicI32::new(0);

    pub(super) fn fork(_: libc::c_int) -> io::Result<i32> {
        // SAFETY: the child only makes system calls and then executes.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            pid => {
                CHILD.store(pid, Ordering::Relaxed);
                Ok(pid)
            }
        }
    }

    pub(super) fn fork_until_exec(namespaces: libc::c_int) -> io::Result<()> {
        match fork(namespaces)? {
            0 => Ok(()),
            child => super::run_minder_of(child.into()),
        }
    }

    /// Does nothing: `next_signal` waits for the end of the parent. A command whose minder is killed is not ended.
    pub(super) fn end_with_parent(_: libc::c_int) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn adopt_orphans() {}

    pub(super) fn next_signal() -> libc::c_int {
        // SAFETY: structures of plain numbers, on the stack, for calls that read and fill them in.
        unsafe {
            let queue = libc::kqueue();
            let mut changes: [libc::kevent; 4] = std::mem::zeroed();
            let signals = [libc::SIGCHLD, super::END_SIGNAL_NUMBER, libc::SIGTERM];
            for (change, signal) in changes.iter_mut().zip(signals) {
                change.ident = signal as libc::uintptr_t;
                change.filter = libc::EVFILT_SIGNAL;
                change.flags = libc::EV_ADD;
            }
            changes[3].ident = libc::getppid() as libc::uintptr_t;
            changes[3].filter = libc::EVFILT_PROC;
            changes[3].flags = libc::EV_ADD;
            changes[3].fflags = libc::NOTE_EXIT;
            let mut event: libc::kevent = std::mem::zeroed();
            let mut pending = std::mem::zeroed();
            libc::sigpending(&mut pending);
            let already_pending =
                signals.into_iter().find(|signal| libc::sigismember(&pending, *signal) == 1);
            let seen = already_pending.unwrap_or_else(|| {
                libc::kevent(queue, changes.as_ptr(), 4, &mut event, 1, std::ptr::null());
                if event.filter == libc::EVFILT_PROC {
                    super::END_SIGNAL_NUMBER
                } else {
                    event.ident as libc::c_int
                }
            });
            libc::close(queue);
            let mut seen_set = std::mem::zeroed();
            libc::sigemptyset(&mut seen_set);
            libc::sigaddset(&mut seen_set, seen);
            libc::sigpending(&mut pending);
            let mut taken = 0;
            if libc::sigismember(&pending, seen) == 1 {
                libc::sigwait(&seen_set, &mut taken);
            }
            seen
        }
    }

    pub(super) fn for_each_child(mut found: impl FnMut(i32)) {
        let child = CHILD.load(Ordering::Relaxed);
        if child > 1 {
            // SAFETY: takes numbers; the group is that of a child that has not been reaped.
            unsafe { libc::killpg(child, libc::SIGKILL) };
            found(child);
        }
    }
}
