//! What a child does between fork and exec: it becomes the leader of its own session, ends with the server,
//! and starts with the signals a program expects.
//!
//! The server has many threads, so the code here may not allocate, lock or panic.

use std::{
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::Command,
    sync::Arc,
};

use rustix::process::{Pid, getpid, getppid, setsid};

use crate::{guard::announce, spec::Reach};

/// The steps for one child.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The server, as seen before the fork.
    pub(crate) server: Pid,
    /// Where the guard listens.
    pub(crate) guard: RawFd,
    /// What the guard has to kill when the server is gone.
    pub(crate) reach: Reach,
    /// Whether standard input is a terminal to take over.
    pub(crate) terminal: bool,
    /// Shared with the steps attached to a command, to find out whether they still are.
    pub(crate) attached: Arc<()>,
}

impl Setup {
    /// Adds the steps to a command.
    pub(crate) fn attach(&self, command: &mut Command) {
        let setup = self.clone();
        // SAFETY: `run` makes only async-signal-safe calls.
        unsafe { command.pre_exec(move || setup.run()) };
    }

    /// False when the command they were attached to has been replaced.
    pub(crate) fn is_attached(&self) -> bool {
        Arc::strong_count(&self.attached) > 1
    }

    fn run(&self) -> io::Result<()> {
        default_signals();
        // A preparation may have made the session already.
        if setsid().is_err() && own_session() != getpid().as_raw_pid() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        if self.terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The server may have ended before the signal was asked for.
        if getppid() != Some(self.server) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        announce(self.guard, self.reach);
        Ok(())
    }
}

/// Through `libc`: a session that was made outside of the process namespace reads as 0.
fn own_session() -> i32 {
    // SAFETY: takes and returns plain numbers.
    unsafe { libc::getsid(0) }
}

/// What the server ignores, a command must not inherit: `nohup` for the server is not `nohup` for its
/// commands.
fn default_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: sets a default in a process that has one thread and is about to exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
