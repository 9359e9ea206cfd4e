//! The commands that one connection runs with `command/exec`, and how they are reached while they run.
//!
//! The table belongs to the connection, and with it every id. A command is a task of its own (`run.rs`):
//! reading and encoding its output must not hold up the connection's other requests. Its owner is the request
//! that started it; when that is dropped, or [`Commands::end`] is called, the command is killed with everything
//! it started.

mod delta;
mod error;
mod input;
mod network;
mod output;
mod request;
mod run;
mod spec;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

use codicil_exec::{ProcessHandle, TerminalSize};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::{
    error::CommandError,
    input::InputEnd,
    output::OutputSink,
    request::{ExecRequest, size},
    spec::{ReadyCommand, ready},
};
use self::{
    input::{InputFeed, InputFeeder},
    run::CommandEnds,
};
use crate::limits::MAX_COMMANDS;

/// The table of one connection. Cheap to clone; every clone is the same table.
#[derive(Clone, Default)]
pub struct CommandTable(Arc<CommandRegistry>);

#[derive(Default)]
struct CommandRegistry {
    table: Mutex<CommandSlots>,
    /// Cancelled when the connection is over; each command has a child of it.
    ending: CancellationToken,
}

#[derive(Default)]
struct CommandSlots {
    running: usize,
    /// Those to which the client gave an id.
    named: HashMap<String, CommandControl>,
}

impl CommandTable {
    /// Takes a place for a command that is about to start. From here on its id reaches it.
    pub fn enter(&self, request: &ExecRequest) -> Result<CommandSlot, CommandError> {
        let mut table = self.lock();
        if table.running >= MAX_COMMANDS {
            return Err(CommandError::TooMany);
        }
        let (control, ends) = CommandControl::new(request, self.0.ending.child_token());
        if let Some(id) = &request.process_id {
            match table.named.entry(id.clone()) {
                Entry::Occupied(_) => return Err(CommandError::duplicate(id)),
                Entry::Vacant(free) => _ = free.insert(control),
            }
        }
        table.running += 1;
        let stay = SlotGuard { commands: self.clone(), id: request.process_id.clone() };
        Ok(CommandSlot { ends, _stay: stay })
    }

    /// The running command with this id.
    pub fn get(&self, id: &str) -> Result<CommandControl, CommandError> {
        self.lock().named.get(id).cloned().ok_or_else(|| CommandError::not_running(id))
    }

    /// Kills every command: the connection is over. One that comes later does not start.
    pub fn end(&self) {
        self.0.ending.cancel();
    }

    // The table is changed in single steps, so a panic elsewhere cannot leave it half done.
    fn lock(&self) -> MutexGuard<'_, CommandSlots> {
        self.0.table.lock()
    }
}

impl fmt::Debug for CommandTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commands({} running)", self.lock().running)
    }
}

/// A command's place in the table, and its ends of what others reach it by.
pub struct CommandSlot {
    ends: CommandEnds,
    _stay: SlotGuard,
}

/// Gives the id back when dropped.
struct SlotGuard {
    commands: CommandTable,
    id: Option<String>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut table = self.commands.lock();
        table.running -= 1;
        if let Some(id) = &self.id {
            table.named.remove(id);
        }
    }
}

/// What a client can do with a running command.
#[derive(Clone)]
pub struct CommandControl {
    input: Option<InputFeeder>,
    process: watch::Receiver<Option<ProcessHandle>>,
    terminate: CancellationToken,
}

impl CommandControl {
    fn new(request: &ExecRequest, terminate: CancellationToken) -> (Self, CommandEnds) {
        let (started, process) = watch::channel(None);
        let (input, feed) = request.takes_input().then(InputFeed::new).unzip();
        let ends = CommandEnds { started, feed, terminate: terminate.clone() };
        (Self { input, process, terminate }, ends)
    }

    /// Feeds it. Returns when the bytes are taken, which is at once unless it has stopped reading.
    pub async fn write(self, bytes: Vec<u8>, end: InputEnd) -> Result<(), CommandError> {
        self.input.ok_or(CommandError::NoStdin)?.write(bytes, end).await
    }

    /// Gives its terminal another size, once it has started.
    pub async fn resize(mut self, size: TerminalSize) -> Result<(), CommandError> {
        let process = match self.process.wait_for(Option::is_some).await {
            Ok(process) => process.clone(),
            // It never started, and whoever asked for it is being told why.
            Err(_) => None,
        };
        Ok(process.ok_or(codicil_exec::ResizeError::Ended)?.resize(size)?)
    }

    /// Has it killed, with everything it started.
    pub fn terminate(&self) {
        self.terminate.cancel();
    }
}
