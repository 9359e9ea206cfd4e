//! A command as an item.

use std::{path::Path, time::Duration};

use codicil_exec::SessionId;
use codicil_protocol::{CommandAction, CommandExecutionSource, CommandExecutionStatus, ItemId, ThreadItem};

use crate::clock::millis;

/// What of a command's item does not change while it runs.
#[derive(Clone, Debug)]
pub(crate) struct CommandItem {
    pub id: ItemId,
    /// The whole line, quoted for a shell.
    pub command: String,
    pub cwd: String,
    pub source: CommandExecutionSource,
    pub actions: Vec<CommandAction>,
    /// The session that can be typed into, or could be once the command may run. It stays the same for the
    /// item's life: clients find the end of a command by it.
    pub process: Option<SessionId>,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnd {
    pub status: CommandExecutionStatus,
    pub output: Option<String>,
    pub exit_code: Option<i32>,
    pub ran: Option<Duration>,
}

impl CommandItem {
    pub fn new(id: ItemId, command: String, cwd: &Path, source: CommandExecutionSource) -> Self {
        let cwd = cwd.to_string_lossy().into_owned();
        Self { id, command, cwd, source, actions: Vec::new(), process: None }
    }

    pub fn started(&self) -> ThreadItem {
        self.item(CommandEnd {
            status: CommandExecutionStatus::InProgress,
            output: None,
            exit_code: None,
            ran: None,
        })
    }

    pub fn ended(&self, end: CommandEnd) -> ThreadItem {
        self.item(end)
    }

    fn item(&self, end: CommandEnd) -> ThreadItem {
        ThreadItem::CommandExecution {
            id: self.id.clone(),
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            process_id: self.process.map(|session| session.to_string()),
            source: self.source.clone(),
            status: end.status,
            command_actions: self.actions.clone(),
            aggregated_output: end.output,
            exit_code: end.exit_code,
            duration_ms: end.ran.map(millis),
        }
    }
}

impl CommandEnd {
    /// Nothing ran.
    pub fn without_run(status: CommandExecutionStatus) -> Self {
        Self { status, output: None, exit_code: None, ran: None }
    }

    /// It ended by itself with this code; anything but 0 counts as failed.
    pub fn exited(code: i32, output: Option<String>, ran: Duration) -> Self {
        let status = match code {
            0 => CommandExecutionStatus::Completed,
            _ => CommandExecutionStatus::Failed,
        };
        Self { status, output, exit_code: Some(code), ran: Some(ran) }
    }

    /// It was stopped on the way.
    pub fn cut_off(output: Option<String>, ran: Duration) -> Self {
        Self { status: CommandExecutionStatus::Failed, output, exit_code: None, ran: Some(ran) }
    }
}
