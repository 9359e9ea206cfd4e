//! The steps of every child between `fork` and `exec`, before those of the sandbox: it gets a minder, leads its own
//! session, and starts with default signal dispositions.
//!
//! The server has many threads, so the code here must not allocate, lock or panic.

use std::{io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Resource, Rlimit, setrlimit, setsid};

use crate::{
    minder::{self, InitReport, MinderTask},
    startup::command_file_limit,
};

/// The relation of a new process to the process that minds it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChildRole {
    /// It forks: the parent becomes the minder, the child goes on to become the command.
    Minded(MinderTask),
    /// It is the first process of a PID namespace, and minds the other processes in it.
    Init(InitReport),
}

/// The steps for one child.
#[derive(Clone, Copy)]
pub(crate) struct ChildSetup {
    role: ChildRole,
    has_terminal: bool,
    file_limit: Option<Rlimit>,
}

impl ChildSetup {
    /// Returns the steps for a child. With `has_terminal`, standard input becomes its controlling terminal.
    pub(crate) fn new(role: ChildRole, has_terminal: bool) -> Self {
        Self { role, has_terminal, file_limit: command_file_limit() }
    }

    /// Adds the steps to a command.
    pub(crate) fn attach(self, command: &mut Command) {
        // SAFETY: `run` makes only async-signal-safe calls.
        unsafe { command.pre_exec(move || self.run()) };
    }

    fn run(&self) -> io::Result<()> {
        match &self.role {
            ChildRole::Minded(task) => minder::become_minder(task)?,
            ChildRole::Init(report) => minder::start_as_init(report)?,
        }
        default_signals();
        setsid()?;
        if let Some(limit) = self.file_limit {
            setrlimit(Resource::Nofile, limit)?;
        }
        if self.has_terminal {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        Ok(())
    }
}

/// Resets every signal to its default. A signal that the server ignores, for example under `nohup`, must not be
/// ignored by its commands.
fn default_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: sets a default in a process that has one thread and is about to exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
