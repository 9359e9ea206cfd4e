//! What a child does between fork and exec: it splits off its minder, becomes the leader of its own session, and
//! starts with the signals that a program expects.
//!
//! The server has many threads, so the code here may not allocate, lock or panic.

use std::{io, os::unix::process::CommandExt, process::Command, sync::OnceLock};

use rustix::process::{Resource, Rlimit, setrlimit, setsid};

use crate::minder::{self, InitReport, MinderTask};

/// What the new process is before the sandbox does its part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChildRole {
    /// It splits off a minder.
    Minded(MinderTask),
    /// It is the first process of a process namespace, and will mind the others in it by itself.
    Init(InitReport),
}

/// The limit of open files that commands start with, if it is not the server's.
static FILE_LIMIT: OnceLock<Rlimit> = OnceLock::new();

/// Gives commands another limit of open files than the server has: some programs misbehave with a large one. The first
/// call counts.
pub fn set_command_file_limit(limit: Rlimit) {
    let _ = FILE_LIMIT.set(limit);
}

/// The steps for one child.
#[derive(Clone, Copy)]
pub(crate) struct ChildSetup {
    role: ChildRole,
    /// Whether standard input is a terminal to take over.
    terminal: bool,
    file_limit: Option<Rlimit>,
}

impl ChildSetup {
    pub(crate) fn new(role: ChildRole, terminal: bool) -> Self {
        Self { role, terminal, file_limit: FILE_LIMIT.get().copied() }
    }

    /// Adds the steps to a command.
    pub(crate) fn attach(self, command: &mut Command) {
        // SAFETY: `run` makes only async-signal-safe calls.
        unsafe { command.pre_exec(move || self.run()) };
    }

    fn run(&self) -> io::Result<()> {
        match &self.role {
            ChildRole::Minded(minding) => minder::split(minding)?,
            ChildRole::Init(report) => minder::start_as_init(report)?,
        }
        default_signals();
        setsid()?;
        if let Some(limit) = self.file_limit {
            setrlimit(Resource::Nofile, limit)?;
        }
        if self.terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        Ok(())
    }
}

/// A signal that the server ignores must not be ignored by its commands: `nohup` for the server is not `nohup` for
/// what it runs.
fn default_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: sets a default in a process that has one thread and is about to exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
