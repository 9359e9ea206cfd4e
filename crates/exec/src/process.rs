//! One child process: starting it, holding it, and waiting for its end.

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
    keeper::{ChildLease, KeptChild},
    output::{OutputSource, ProcessOutput, register},
    spawner::{self, ServerEnds, SpawnError, StartedProcess},
    spec::{CaptureLimit, ProcessSpec, TerminalSize},
    terminal,
};

/// A process and its ownership: dropping this kills the process and everything it started.
///
/// The streams are fields so that a task can read and write at the same time. They may be taken out; they do
/// not keep the process alive.
pub struct Process {
    /// `None` when [`crate::InputSource::Null`] was asked for.
    pub stdin: Option<ProcessInput>,
    pub output: ProcessOutput,
    handle: ProcessHandle,
    _lease: ChildLease,
}

/// Ends, resizes and awaits a process from elsewhere. Does not keep it alive, and outlives it harmlessly.
#[derive(Clone)]
pub struct ProcessHandle {
    child: Arc<KeptChild>,
    terminal: Option<Weak<AsyncFd<OwnedFd>>>,
}

/// Everything about a process that has ended.
#[derive(Debug)]
pub struct CapturedOutput {
    pub exit: ProcessExit,
    /// Standard output, or all output of a terminal.
    pub stdout: HeadTail,
    pub stderr: HeadTail,
}

/// Why a terminal kept its size.
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
    /// Starts a process in a session of its own. Its streams belong to the runtime of the caller.
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

    /// For those who end, resize or await it from elsewhere.
    pub fn handle(&self) -> ProcessHandle {
        self.handle.clone()
    }

    /// The id of the process that minds this one: see the crate's documentation.
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

    /// Closes the input and reads until the process has ended, keeping of each stream what the cap allows.
    /// Dropped before that, the process is killed.
    pub async fn capture(mut self, cap: CaptureLimit) -> CapturedOutput {
        if let Some(stdin) = self.stdin.take() {
            // A process that does not read has ended or will not miss it.
            let _ = stdin.close().await;
        }
        let (mut stdout, mut stderr) = (HeadTail::with_cap(cap), HeadTail::with_cap(cap));
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
    /// The id of the process that minds this one: see the crate's documentation.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process and everything it started, at once. May be called at any time and repeatedly; does
    /// nothing once the process has been let go of.
    pub fn terminate(&self) {
        self.child.terminate();
    }

    /// Waits until the process itself has ended. What it started may still run, and output may still be
    /// unread; but a process whose output nobody reads may never end.
    pub async fn exit(&self) -> ProcessExit {
        let mut exit = self.child.exit();
        // The sender lives in the child, which this handle holds.
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit).unwrap_or(ProcessExit::Unknown)
    }

    /// How it ended, if it has.
    pub fn try_exit(&self) -> Option<ProcessExit> {
        *self.child.exit().borrow()
    }

    /// Gives the terminal another size.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ResizeError> {
        let terminal = self.terminal.as_ref().ok_or(ResizeError::NoTerminal)?;
        let controller = terminal.upgrade().ok_or(ResizeError::Ended)?;
        Ok(terminal::resize(controller.get_ref(), size)?)
    }
}
