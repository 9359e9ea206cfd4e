//! The commands that a connection runs with `command/exec` and `process/spawn`.
//!
//! Process ids belong to the connection, and so do the handles of `process/spawn`, in a table of their own. Each command
//! runs in a task of its own, because reading and encoding its output must not delay the connection's other requests. When
//! the request of a `command/exec` is dropped, or [`CommandTable::end`] is called, the command is killed with all of its
//! child processes.

mod error;
mod input;
mod output;
mod prepare;
mod process_error;
mod request;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    panic::resume_unwind,
    sync::Arc,
};

use codicil_exec::{Process, ProcessExit, ProcessHandle, ResizeError, TerminalSize};
use codicil_proxy::CommandProxy;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument;

pub use self::{
    error::CommandError,
    input::InputEnd,
    output::{CommandResult, OutputSink},
    prepare::{ReadyCommand, prepare},
    process_error::ProcessError,
    request::{ExecRequest, terminal_size},
};
use self::{
    input::{InputFeed, InputFeeder},
    prepare::CommandNetwork,
};
use crate::limits::MAX_COMMANDS;

/// The exit of a command that was killed before it started.
const KILLED: ProcessExit = ProcessExit::Signal(9);

/// The running commands of one connection. Clones share one table.
#[derive(Clone, Default)]
pub struct CommandTable(Arc<CommandRegistry>);

#[derive(Default)]
struct CommandRegistry {
    slots: Mutex<CommandSlots>,
    /// Cancelled when the connection ends. Each command has a child token.
    ending: CancellationToken,
}

#[derive(Default)]
struct CommandSlots {
    running: usize,
    /// The commands with an id from the client.
    by_id: HashMap<String, CommandControl>,
}

impl CommandTable {
    /// Registers a command that is about to start. From now on its id can be used.
    pub fn register(&self, request: &ExecRequest) -> Result<CommandSlot, CommandError> {
        let mut slots = self.0.slots.lock();
        if slots.running >= MAX_COMMANDS {
            return Err(CommandError::TooMany);
        }
        let (control, ends) = CommandControl::new(request, self.0.ending.child_token());
        if let Some(id) = &request.process_id {
            match slots.by_id.entry(id.clone()) {
                Entry::Occupied(_) => return Err(CommandError::duplicate(id)),
                Entry::Vacant(free) => _ = free.insert(control),
            }
        }
        slots.running += 1;
        let guard = SlotGuard { table: self.clone(), id: request.process_id.clone() };
        Ok(CommandSlot { ends, guard })
    }

    pub fn get(&self, id: &str) -> Result<CommandControl, CommandError> {
        self.0.slots.lock().by_id.get(id).cloned().ok_or_else(|| CommandError::not_running(id))
    }

    /// Kills every command, and those that are registered later. Called when the connection is over.
    pub fn end(&self) {
        self.0.ending.cancel();
    }
}

impl fmt::Debug for CommandTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandTable({} running)", self.0.slots.lock().running)
    }
}

/// The client's side of a running command.
#[derive(Clone)]
pub struct CommandControl {
    input: Option<InputFeeder>,
    process: watch::Receiver<Option<ProcessHandle>>,
    terminate: CancellationToken,
}

/// The command's side of [`CommandControl`].
struct CommandEnds {
    started: watch::Sender<Option<ProcessHandle>>,
    input: Option<InputFeed>,
    terminate: CancellationToken,
}

impl CommandControl {
    fn new(request: &ExecRequest, terminate: CancellationToken) -> (Self, CommandEnds) {
        let (started, process) = watch::channel(None);
        let (feeder, feed) = request.takes_input().then(InputFeed::new).unzip();
        let ends = CommandEnds { started, input: feed, terminate: terminate.clone() };
        (Self { input: feeder, process, terminate }, ends)
    }

    /// Writes to the command's input. Returns when the bytes are queued, which is at once unless the command has
    /// stopped reading.
    pub async fn write(self, bytes: Vec<u8>, end: InputEnd) -> Result<(), CommandError> {
        self.input.ok_or(CommandError::NoStdin)?.write(bytes, end).await
    }

    /// Changes the size of the command's terminal, once it has started.
    pub async fn resize(mut self, size: TerminalSize) -> Result<(), CommandError> {
        let process = match self.process.wait_for(Option::is_some).await {
            Ok(process) => process.clone(),
            // The command could not be started. Its own request gets the reason.
            Err(_) => None,
        };
        Ok(process.ok_or(ResizeError::Ended)?.resize(size)?)
    }

    /// Kills the command and all of its child processes.
    pub fn terminate(&self) {
        self.terminate.cancel();
    }
}

/// A registered command that has not started.
pub struct CommandSlot {
    ends: CommandEnds,
    guard: SlotGuard,
}

/// Removes a command from the table when dropped.
struct SlotGuard {
    table: CommandTable,
    id: Option<String>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut slots = self.table.0.slots.lock();
        slots.running -= 1;
        if let Some(id) = &self.id {
            slots.by_id.remove(id);
        }
    }
}

impl CommandSlot {
    /// Runs the command to its end. By then all of its output is queued for the client. Dropping the future kills
    /// the command.
    pub async fn run(self, ready: ReadyCommand, sink: OutputSink) -> Result<CommandResult, CommandError> {
        let run = async { Ok(self.start(ready).await?.finish(sink).await) };
        let task = AbortOnDropHandle::new(tokio::spawn(run.in_current_span()));
        match task.await.map_err(|error| error.try_into_panic()) {
            Ok(result) => result,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_cancelled)) => Err(CommandError::Ending),
        }
    }

    /// Starts the command, unless it has been terminated already.
    pub async fn start(self, ready: ReadyCommand) -> Result<StartedCommand, CommandError> {
        let Self { ends: CommandEnds { started, input, terminate }, guard } = self;
        if terminate.is_cancelled() {
            return Ok(StartedCommand { running: None, _guard: guard });
        }
        let process = Process::spawn(ready.spec).await?;
        let proxy = ready.network.map(CommandNetwork::open).transpose()?;
        started.send_replace(Some(process.handle()));
        let running = RunningCommand { process, input, terminate, _proxy: proxy };
        Ok(StartedCommand { running: Some(running), _guard: guard })
    }
}

/// A command that has started. Dropping it kills the command.
pub struct StartedCommand {
    /// `None` if it was terminated before it could start.
    running: Option<RunningCommand>,
    _guard: SlotGuard,
}

struct RunningCommand {
    process: Process,
    input: Option<InputFeed>,
    terminate: CancellationToken,
    /// Ends with the command.
    _proxy: Option<CommandProxy>,
}

impl StartedCommand {
    /// Follows the command to its end. By then all of its output is queued for the client, and its id is free.
    pub async fn finish(self, mut sink: OutputSink) -> CommandResult {
        let exit = match self.running {
            Some(running) => running.follow(&mut sink).await,
            None => KILLED,
        };
        sink.finish(exit)
    }
}

impl RunningCommand {
    async fn follow(self, sink: &mut OutputSink) -> ProcessExit {
        let Self { mut process, input, terminate, _proxy } = self;
        let handle = process.handle();
        let stdin = process.stdin.take();
        let feed_input = async {
            match input {
                Some(feed) => feed.run(stdin).await,
                None => std::future::pending().await,
            }
        };
        let kill = async {
            terminate.cancelled().await;
            handle.terminate();
            std::future::pending().await
        };
        // Only the output ends the command: it closes after the process has ended and everything has been read.
        tokio::select! {
            () = sink.fill(&mut process.output) => {}
            never = feed_input => match never {},
            never = kill => match never {},
        }
        process.exit().await
    }
}
