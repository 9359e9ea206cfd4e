//! The process between the server and a command. It keeps everything that the command starts within reach.
//!
//! A command can leave its process group and its session, and its parent may end before it does. It cannot leave
//! the minder: the kernel hands orphans to the nearest ancestor that asked for them (`PR_SET_CHILD_SUBREAPER`), or,
//! in a process namespace, to the namespace's first process. So the minder can always find and kill what is left:
//! when the server asks for it ([`END`]), when the server itself has ended (the same signal, as the parent-death
//! signal), and when the command has ended and no status has to be reported.
//!
//! [`split`] is called between `fork` and `exec`. The calling process becomes the minder and never returns; its new
//! child returns and goes on to become the command. A sandbox that makes a process namespace calls [`become_init`]
//! in that child, which splits once more: the first process of the namespace minds everything in it, and the kernel
//! kills the namespace with it. A server that may make process namespaces by itself (`spawner.rs`) starts that first
//! process directly, without a minder outside: killing it is enough.
//!
//! The server has many threads, and the minder is a copy of one of them. No code here allocates, locks or panics.

use std::{
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::process::{Pid, Signal, getpid, getppid};

/// Tells a minder to kill everything and to end.
pub(crate) const END: Signal = Signal::USR2;
const END_NUMBER: libc::c_int = libc::SIGUSR2;

/// The pipe for the command's status in this process. Set in a process that has one thread, and kept by its children:
/// neither the sandbox nor a parent that has lost its stack can be handed it.
static REPORT: AtomicI32 = AtomicI32::new(NO_REPORT);
const NO_REPORT: RawFd = -1;

/// What a minder does besides waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinderTask {
    /// Namespaces to put the command into, as flags of `clone`.
    pub namespaces: libc::c_int,
    /// Where the status of the command is written, as the four bytes that `waitpid` gives. The rest of the tree then
    /// lives until the minder is told to end. Without a pipe the minder ends everything with the command, and exits
    /// as it did.
    pub report: Option<RawFd>,
    /// The process whose end also ends the command.
    pub owner: Option<Pid>,
}

/// Makes the calling process the minder of a new child, which is the one that returns.
pub(crate) fn split(minding: &MinderTask) -> io::Result<()> {
    let mask = block_signals();
    if let Some(owner) = minding.owner {
        end_with_parent(END_NUMBER)?;
        // It may have ended before the signal was asked for.
        if getppid() != Some(owner) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    adopt_orphans();
    let minder = getpid();
    REPORT.store(minding.report.unwrap_or(NO_REPORT), Ordering::Relaxed);
    if minding.namespaces & NEW_PID_NAMESPACE == 0 {
        split_until_exec(minding.namespaces)?;
        set_mask(&mask);
        end_with_parent(libc::SIGKILL)?;
        return match getppid() == Some(minder) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        };
    }
    match fork(minding.namespaces)? {
        0 => {
            set_mask(&mask);
            end_with_parent(libc::SIGKILL)
        }
        // The first process of the namespace reports by itself.
        child => mind(child, None),
    }
}

/// How the first process of a process namespace, which the server started without a minder, reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitReport {
    /// Where the status of the command is written.
    pub pipe: RawFd,
    /// The other end, which only the server must have.
    pub server_end: RawFd,
}

/// Prepares the first process of a process namespace for [`become_init`].
pub(crate) fn start_as_init(report: &InitReport) -> io::Result<()> {
    REPORT.store(report.pipe, Ordering::Relaxed);
    end_with_parent(libc::SIGKILL)?;
    // The server may have ended before the signal was asked for. It cannot be seen from within the namespace, but
    // without it nothing reads the pipe.
    let mut pipe = libc::pollfd { fd: report.pipe, events: 0, revents: 0 };
    // SAFETY: plain system calls; the descriptor is this process's own copy.
    unsafe {
        libc::close(report.server_end);
        libc::poll(&mut pipe, 1, 0);
    }
    match pipe.revents & libc::POLLERR {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Splits the first process of a process namespace from the command that will run in it. For a sandbox, between
/// `fork` and `exec`; the namespace was made by the first split.
pub fn become_init() -> io::Result<()> {
    let mask = block_signals();
    split_until_exec(0)?;
    set_mask(&mask);
    Ok(())
}

/// What [`split_until_exec`] goes on with in the parent.
extern "C" fn mind_child(child: libc::c_long) -> ! {
    let report = REPORT.load(Ordering::Relaxed);
    mind(child as i32, (report != NO_REPORT).then_some(report))
}

/// Adds a minder to a command that is spawned without this crate's [`Process`](crate::Process). It ends everything
/// with the command and exits as it did, passes SIGTERM and SIGHUP on to it, and puts it into `namespaces` (flags of
/// `clone`). With `ends_with_parent` it also ends everything with the *thread* that spawns the command; the kernel
/// knows no other parent. Call this before other `pre_exec` steps are added.
pub fn attach_minder(command: &mut Command, namespaces: libc::c_int, ends_with_parent: bool) {
    let minding = MinderTask { namespaces, report: None, owner: ends_with_parent.then(getpid) };
    // SAFETY: `split` makes only async-signal-safe calls.
    unsafe { command.pre_exec(move || split(&minding)) };
}

/// Ends the process at once, without the server's exit handlers.
fn leave(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends the process when it unwinds: not even a panic may make a minder go on as a second server.
struct LeaveOnPanic;

impl Drop for LeaveOnPanic {
    fn drop(&mut self) {
        leave(1)
    }
}

/// The whole life of a minder. Every signal is blocked.
fn mind(child: i32, report: Option<RawFd>) -> ! {
    let _leave = LeaveOnPanic;
    step_aside(report);
    loop {
        reap_ended(child, report);
        match next_signal() {
            END_NUMBER => {
                kill_everything();
                leave(128 + libc::SIGKILL)
            }
            // Meant for the command, by a parent that knows only the minder. The child has not been reaped, so its
            // number is still its own.
            signal @ (libc::SIGTERM | libc::SIGHUP) if report.is_none() => send(child, signal),
            _ => {}
        }
    }
}

/// Reaps every process that has ended. Ends the minder where nothing is left to mind.
fn reap_ended(child: i32, report: Option<RawFd>) {
    loop {
        match (reap(libc::WNOHANG), report) {
            (ReapedProcess::Process(pid, status), Some(report)) if pid == child => {
                write_status(report, status)
            }
            (ReapedProcess::Process(pid, status), None) if pid == child => {
                kill_everything();
                leave(exit_code(status))
            }
            (ReapedProcess::Process(..), _) => {}
            (ReapedProcess::NotYet, _) => return,
            (ReapedProcess::NoChildren, _) => leave(0),
        }
    }
}

/// Kills what the minder can reach until there is nothing left. Children of a process that was killed become the
/// minder's own, so it goes round by round.
fn kill_everything() {
    loop {
        each_child(|child| send(child, libc::SIGKILL));
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

/// As a shell says it.
fn exit_code(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

fn write_status(report: RawFd, status: i32) {
    let bytes = status.to_ne_bytes();
    // SAFETY: the bytes are valid for their length. SIGPIPE is blocked: a server that does not listen is no reason
    // to end before the rest of the tree.
    while unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) } == -1 && errno() == libc::EINTR {
    }
}

/// Signals one process, never a group: 0 and negative numbers stand for many.
fn send(pid: i32, signal: libc::c_int) {
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
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask was filled in by `block_signals`.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Leaves the server's directory and open files: a minder must not keep a pipe, a lock or a mount busy.
fn step_aside(kept: Option<RawFd>) {
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
    NEW_PID_NAMESPACE, adopt_orphans, each_child, end_with_parent, fork, next_signal, split_until_exec,
};
#[cfg(not(target_os = "linux"))]
use other::{
    NEW_PID_NAMESPACE, adopt_orphans, each_child, end_with_parent, fork, next_signal, split_until_exec,
};

#[cfg(target_os = "linux")]
mod linux {
    use std::{ffi::CStr, io, mem::MaybeUninit};

    use rustix::{
        fs::{CWD, Mode, OFlags, RawDir, openat},
        process::{getpid, set_child_subreaper, set_parent_process_death_signal},
    };

    pub(super) const NEW_PID_NAMESPACE: libc::c_int = libc::CLONE_NEWPID;

    /// The system call itself: the library's `fork` runs handlers of other libraries, and knows no namespaces.
    pub(super) fn fork(namespaces: libc::c_int) -> io::Result<i32> {
        let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
        // SAFETY: without CLONE_VM this is a fork. The child only makes system calls and then executes.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(pid as i32),
        }
    }

    /// Forks where the child is going to execute a program: it borrows the memory of its parent until then, instead of
    /// copying it, and the parent waits. Only the child returns. The parent goes on in `mind_child`, and never looks at
    /// its stack again, because the child has used it meanwhile.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn split_until_exec(namespaces: libc::c_int) -> io::Result<()> {
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
                "call {mind_child}",
                "ud2",
                "2:",
                mind_child = sym super::mind_child,
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
    pub(super) fn split_until_exec(namespaces: libc::c_int) -> io::Result<()> {
        match fork(namespaces)? {
            0 => Ok(()),
            child => super::mind_child(child.into()),
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
    pub(super) fn each_child(mut found: impl FnMut(i32)) {
        if !listed_children(&mut found) {
            searched_children(found);
        }
    }

    /// By the kernel's list, which not every kernel has. A list that does not fit is read again in the next round.
    fn listed_children(found: &mut impl FnMut(i32)) -> bool {
        let Some((text, length)) = read(c"/proc/thread-self/children") else { return false };
        let text = text.get(..length).unwrap_or_default();
        // The last number may be cut off.
        let whole = text.iter().rposition(|byte| *byte == b' ').map_or(0, |end| end + 1);
        let numbers = text.get(..whole).unwrap_or_default().split(|byte| *byte == b' ');
        numbers.filter_map(number).for_each(found);
        true
    }

    /// By looking at every process.
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

    /// `/proc/PID/stat`, without an allocation.
    fn stat_path(pid: i32, buffer: &mut [u8; 32]) -> &CStr {
        use std::io::Write;
        let _ = write!(buffer.as_mut_slice(), "/proc/{pid}/stat\0");
        CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
    }

    /// The second field after the name, which is in parentheses and may contain anything.
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
        fn children_are_found_in_both_ways() {
            let mut child =
                std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let (mut listed, mut searched) = (Vec::new(), Vec::new());
            if listed_children(&mut |pid| listed.push(pid)) {
                assert!(listed.contains(&(child.id() as i32)), "{listed:?}");
            }
            searched_children(|pid| searched.push(pid));
            assert!(searched.contains(&(child.id() as i32)), "{searched:?}");
            drop(child.stdin.take());
            child.wait().unwrap();
        }

        #[test]
        fn only_numbers_are_processes() {
            assert_eq!(number(b"4711"), Some(4711));
            for name in ["", "self", "12a", "99999999999"] {
                assert_eq!(number(name.as_bytes()), None, "{name}");
            }
        }
    }
}

/// Systems without parent-death signals and without a way to adopt orphans: the minder waits for the end of the
/// server through `kqueue`, and reaches the command's process group.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::{
        io,
        sync::atomic::{AtomicI32, Ordering},
    };

    pub(super) const NEW_PID_NAMESPACE: libc::c_int = 0;

    /// The command, which leads its process group.
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

    pub(super) fn split_until_exec(namespaces: libc::c_int) -> io::Result<()> {
        match fork(namespaces)? {
            0 => Ok(()),
            child => super::mind_child(child.into()),
        }
    }

    /// Done by `next_signal`; a command whose minder was killed is left to its own devices.
    pub(super) fn end_with_parent(_: libc::c_int) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn adopt_orphans() {}

    pub(super) fn next_signal() -> libc::c_int {
        // SAFETY: structures of plain numbers, on the stack, for calls that read and fill them in.
        unsafe {
            let queue = libc::kqueue();
            let mut changes: [libc::kevent; 4] = std::mem::zeroed();
            let signals = [libc::SIGCHLD, super::END_NUMBER, libc::SIGTERM];
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
            let waiting = signals.into_iter().find(|signal| libc::sigismember(&pending, *signal) == 1);
            let seen = waiting.unwrap_or_else(|| {
                libc::kevent(queue, changes.as_ptr(), 4, &mut event, 1, std::ptr::null());
                if event.filter == libc::EVFILT_PROC { super::END_NUMBER } else { event.ident as libc::c_int }
            });
            libc::close(queue);
            let mut one = std::mem::zeroed();
            libc::sigemptyset(&mut one);
            libc::sigaddset(&mut one, seen);
            libc::sigpending(&mut pending);
            let mut taken = 0;
            if libc::sigismember(&pending, seen) == 1 {
                libc::sigwait(&one, &mut taken);
            }
            seen
        }
    }

    pub(super) fn each_child(mut found: impl FnMut(i32)) {
        let child = CHILD.load(Ordering::Relaxed);
        if child > 1 {
            // SAFETY: takes numbers; the group is that of a child that has not been reaped.
            unsafe { libc::killpg(child, libc::SIGKILL) };
            found(child);
        }
    }
}
