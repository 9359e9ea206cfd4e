//! One child process: spawning it, owning it, and waiting for its exit.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

use thiserror::Error;
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    exit::ProcessExit,
    head_tail::HeadTail,
    input::ProcessInput,
    output::{OutputSource, ProcessOutput, register},
    reaper::{ChildLease, MindedChild},
    spawner::{self, ServerEnds, SpawnError, StartedProcess},
    spec::{CaptureLimit, ProcessSpec, TerminalSize},
    terminal,
};

/// An owned process: dropping it kills the process and everything it started.
///
/// The streams are fields so that a task can read and write at the same time. They may be taken out; they do not keep
/// the process alive.
pub struct Process {
    /// `None` with [`crate::InputSource::Null`] and without a terminal.
    pub stdin: Option<ProcessInput>,
    pub output: ProcessOutput,
    handle: ProcessHandle,
    _lease: ChildLease,
}

/// A handle that terminates, resizes and awaits a process. It does not keep the process alive and may outlive it.
#[derive(Clone)]
pub struct ProcessHandle {
    child: Arc<MindedChild>,
    terminal: Option<Weak<AsyncFd<OwnedFd>>>,
}

/// The exit and the output of a process.
#[derive(Debug)]
pub struct CapturedOutput {
    pub exit: ProcessExit,
    /// Standard output, or the whole output of a terminal.
    pub stdout: HeadTail,
    pub stderr: HeadTail,
}

/// Why a terminal could not be resized.
#[derive(Debug, Error)]
pub enum ResizeError {
    #[error("process is not attached to a PTY")]
    NoTerminal,
    #[error("process has ended")]
    Ended,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Process {
    /// Spawns a process in its own session. Its streams are registered with the caller's runtime.
    pub async fn spawn(spec: ProcessSpec) -> Result<Process, SpawnError> {
        let StartedProcess { lease, stdio } = spawner::spawn(spec).await?;
        let exit = lease.child.exit();
        let mut handle = ProcessHandle { child: lease.child.clone(), terminal: None };
        let (stdin, output) = match stdio {
            ServerEnds::Pipes { stdin, stdout, stderr } => {
                let stdin = stdin.map(|end| register(end, Interest::WRITABLE)).transpose()?;
                (stdin.map(ProcessInput::pipe), ProcessOutput::pipes(stdout, stderr, exit)?)
            }
            ServerEnds::Terminal(controller) => {
                let controller = Arc::new(register(controller, Interest::READABLE | Interest::WRITABLE)?);
                handle.terminal = Some(Arc::downgrade(&controller));
                (Some(ProcessInput::terminal(controller.clone())), ProcessOutput::terminal(controller, exit))
            }
        };
        Ok(Process { stdin, output, handle, _lease: lease })
    }

    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    /// See [`ProcessHandle::id`].
    pub fn id(&self) -> u32 {
        self.handle.id()
    }

    /// See [`ProcessHandle::terminate`].
    pub fn terminate(&self) {
        self.handle.terminate();
    }

    /// See [`ProcessHandle::exit`].
    pub async fn exit(&self) -> ProcessExit {
        self.handle.exit().await
    }

    /// Closes the input and reads until the process has exited, keeping of each stream what `limit` allows. If the
    /// future is dropped before that, the process is killed.
    pub async fn capture(mut self, limit: CaptureLimit) -> CapturedOutput {
        if let Some(stdin) = self.stdin.take() {
            // Fails if the process has exited or closed its input, which does not matter here.
            let _ = stdin.close().await;
        }
        let mut stdout = HeadTail::with_limit(limit);
        let mut stderr = HeadTail::with_limit(limit);
        while let Some(chunk) = self.output.next().await {
            match chunk.source {
                OutputSource::Stdout | OutputSource::Terminal => stdout.push(&chunk.bytes),
                OutputSource::Stderr => stderr.push(&chunk.bytes),
            }
        }
        CapturedOutput { exit: self.exit().await, stdout, stderr }
    }
}

impl ProcessHandle {
    /// Returns the process id of the minder, not of the command itself: see the crate's documentation.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process and everything it started, at once. May be called at any time and repeatedly; has no effect
    /// once the owner has dropped the process.
    pub fn terminate(&self) {
        self.child.terminate();
    }

    /// Waits until the process itself has exited. Processes that it started may still run, and output may still be
    /// unread. A process whose output is not read may block on a full pipe and never exit.
    pub async fn exit(&self) -> ProcessExit {
        let mut exit = self.child.exit();
        // The sender lives in the child, which this handle holds.
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit).unwrap_or(ProcessExit::Unknown)
    }

    /// Returns how the process ended, or `None` while it runs.
    pub fn try_exit(&self) -> Option<ProcessExit> {
        *self.child.exit().borrow()
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ResizeError> {
        let terminal = self.terminal.as_ref().ok_or(ResizeError::NoTerminal)?;
        let controller = terminal.upgrade().ok_or(ResizeError::Ended)?;
        Ok(terminal::resize(controller.get_ref(), size)?)
    }
}
