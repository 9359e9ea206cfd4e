//! What is told of a run, to people or to programs.

use std::io;

use codicil_client::{ClientError, CompletedTurn};
use codicil_protocol::ServerNotification;

use super::{args::ExecOptions, human::HumanReport, json::JsonReport, session::ExecThread};

/// Writes on standard output and error. A reader that has gone away ends the run.
pub enum ExecReport {
    Human(HumanReport),
    Json(JsonReport<io::Stdout>),
}

impl ExecReport {
    pub fn new(options: &ExecOptions) -> Self {
        match options.json {
            true => Self::Json(JsonReport::new(io::stdout())),
            false => Self::Human(HumanReport::new(options.color)),
        }
    }

    /// The thread is there and the turn is about to start.
    pub fn begun(&mut self, session: &ExecThread) -> io::Result<()> {
        match self {
            Self::Human(human) => human.begun(session),
            Self::Json(json) => json.begun(&session.thread),
        }
    }

    pub fn event(&mut self, event: &ServerNotification) -> io::Result<()> {
        match self {
            Self::Human(human) => human.event(event),
            Self::Json(json) => json.event(event),
        }
    }

    /// Something was refused because nobody is there to approve it.
    pub fn declined(&mut self, sentence: &str) -> io::Result<()> {
        match self {
            Self::Human(human) => human.warn(sentence),
            Self::Json(json) => json.warn(sentence),
        }
    }

    /// Whoever reads was so slow that events had to be dropped.
    pub fn missed(&mut self, count: u64) -> io::Result<()> {
        self.declined(&format!("{count} events were dropped: they were not read in time"))
    }

    pub fn interrupting(&mut self) -> io::Result<()> {
        match self {
            Self::Human(human) => human.warn("interrupting; once more to end at once"),
            Self::Json(_) => Ok(()),
        }
    }

    /// Whether somebody watches a terminal.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Human(human) if human.is_live())
    }

    pub fn tick(&mut self) -> io::Result<()> {
        match self {
            Self::Human(human) => human.tick(),
            Self::Json(_) => Ok(()),
        }
    }

    pub fn ended(&mut self, result: &Result<CompletedTurn, ClientError>) -> io::Result<()> {
        match self {
            Self::Human(human) => human.ended(result),
            Self::Json(json) => json.ended(result),
        }
    }

    /// There is no thread to run a turn on. Standard error says it too, as the end of the program.
    pub fn refused(&mut self, error: &anyhow::Error) -> io::Result<()> {
        match self {
            Self::Human(_) => Ok(()),
            Self::Json(json) => json.fatal(&format!("{error:#}")),
        }
    }
}
