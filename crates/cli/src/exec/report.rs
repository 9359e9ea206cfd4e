//! Reports a run, as text or as JSON.

use std::io;

use codicil_client::{ClientError, CompletedTurn};
use codicil_protocol::{McpServerStatusUpdatedNotification, ServerNotification};

use super::{args::ExecOptions, human::HumanReport, json::JsonReport, thread::ExecThread};

/// Writes to standard output and standard error. A closed pipe ends the run with an error.
pub enum ExecReport {
    Human(HumanReport),
    Json(JsonReport<io::Stdout>),
}

impl ExecReport {
    pub fn new(options: &ExecOptions) -> Self {
        if options.json {
            Self::Json(JsonReport::new(io::stdout()))
        } else {
            Self::Human(HumanReport::new(options.color))
        }
    }

    /// Called before the turn starts.
    pub fn thread_opened(&mut self, thread: &ExecThread) -> io::Result<()> {
        match self {
            Self::Human(human) => human.thread_opened(thread),
            Self::Json(json) => json.thread_opened(&thread.thread),
        }
    }

    pub fn event(&mut self, event: &ServerNotification) -> io::Result<()> {
        match self {
            Self::Human(human) => human.event(event),
            Self::Json(json) => json.event(event),
        }
    }

    /// Called for a server request that was declined.
    pub fn declined(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Human(human) => human.warn(text),
            Self::Json(json) => json.warn(text),
        }
    }

    /// Called if events were dropped because they were not read in time.
    pub fn missed(&mut self, count: u64) -> io::Result<()> {
        self.declined(&format!("{count} events were dropped: they were not read in time"))
    }

    pub fn interrupting(&mut self) -> io::Result<()> {
        match self {
            Self::Human(human) => human.warn("interrupting; press again to exit immediately"),
            Self::Json(_) => Ok(()),
        }
    }

    /// Returns whether progress is shown on a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Human(human) if human.is_terminal())
    }

    pub fn tick(&mut self) -> io::Result<()> {
        match self {
            Self::Human(human) => human.tick(),
            Self::Json(_) => Ok(()),
        }
    }

    pub fn turn_ended(&mut self, result: &Result<CompletedTurn, ClientError>) -> io::Result<()> {
        match self {
            Self::Human(human) => human.turn_ended(result),
            Self::Json(json) => json.turn_ended(result),
        }
    }

    /// Called if the thread could not be opened. The error is also printed on standard error at the end.
    pub fn thread_failed(&mut self, error: &anyhow::Error) -> io::Result<()> {
        match self {
            Self::Human(_) => Ok(()),
            Self::Json(json) => json.fatal(&format!("{error:#}")),
        }
    }
}

/// Returns a message with its reason.
pub fn with_details(summary: &str, details: Option<&str>) -> String {
    details.map_or_else(|| summary.to_owned(), |details| format!("{summary}: {details}"))
}

/// Returns why an MCP server did not start.
pub fn failed_server(server: &McpServerStatusUpdatedNotification) -> String {
    server.error.clone().unwrap_or_else(|| format!("MCP server `{}` failed to start", server.name))
}
