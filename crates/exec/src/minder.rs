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

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use std::{
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
    sync::atomic::{AtomicI32, Ordering},
};

use rustix::process::{Pid, Signal, getpid, getppid};

#[cfg(target_os = "linux")]
use linux::{
    NEW_PID_NAMESPACE, adopt_orphans, end_with_parent, for_each_child, fork, fork_until_exec, next_signal,
};
#[cfg(not(target_os = "linux"))]
use other::{
    NEW_PID_NAMESPACE, adopt_orphans, end_with_parent, for_each_child, fork, fork_until_exec, next_signal,
};

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
    /// The parent process, if the command ends with the thread that spawned it.
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
/// `namespaces` (flags of `clone`). Call this before adding other `pre_exec` steps.
pub fn attach_minder(command: &mut Command, namespaces: libc::c_int) {
    attach(command, MinderTask { namespaces, status_pipe: None, owner: None });
}

/// Adds a minder as [`attach_minder`] does, which also kills everything when the *thread* that spawned the command ends.
/// The kernel has no such signal for a process.
pub fn attach_minder_of_thread(command: &mut Command, namespaces: libc::c_int) {
    attach(command, MinderTask { namespaces, status_pipe: None, owner: Some(getpid()) });
}

fn attach(command: &mut Command, task: MinderTask) {
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
