//! Writes lines and streamed text to a terminal or a file, without mixing them on one line.

use std::{
    collections::HashSet,
    io::{self, IsTerminal, Write},
    time::Instant,
};

use codicil_protocol::ItemId;

use crate::style::{ColorChoice, Palette, without_control_characters};

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

pub type OutputWriter = Box<dyn Write + Send>;

/// The output of a run: events on standard error, messages on standard output.
pub struct ReportScreen {
    pub palette: Palette,
    /// Receives events.
    err: OutputWriter,
    /// Receives the agent's messages.
    out: OutputWriter,
    /// Whether `err` is a terminal.
    is_terminal: bool,
    /// Whether messages are streamed to `out`, because it is a terminal.
    streams_answers: bool,
    started_at: Instant,
    ticks: usize,
    /// Whether the spinner is the current line.
    has_spinner: bool,
    /// The text that is being streamed.
    open: Option<OpenText>,
    /// Items of which deltas have been written.
    streamed: HashSet<ItemId>,
    /// Lines that arrived in the middle of a message.
    held: Vec<String>,
}

struct OpenText {
    item: ItemId,
    kind: TextKind,
    at_line_start: bool,
}

/// The kind of a streamed text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Thought,
    Output,
    Message,
}

impl ReportScreen {
    /// Writes to standard error and standard output.
    pub fn new(color: ColorChoice) -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            streams_answers: io::stdout().is_terminal(),
            ..Self::to(Box::new(io::stderr()), Box::new(io::stdout()), Palette::new(color))
        }
    }

    /// Writes elsewhere, as to files.
    pub fn to(err: OutputWriter, out: OutputWriter, palette: Palette) -> Self {
        Self {
            palette,
            err,
            out,
            is_terminal: false,
            streams_answers: false,
            started_at: Instant::now(),
            ticks: 0,
            has_spinner: false,
            open: None,
            streamed: HashSet::new(),
            held: Vec::new(),
        }
    }

    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Updates the spinner, unless the cursor is within a text.
    pub fn tick(&mut self) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| !open.at_line_start) {
            return Ok(());
        }
        self.ticks += 1;
        let frame = SPINNER.get(self.ticks % SPINNER.len()).unwrap_or(&"*");
        let text = format!("{frame} working, {} s", self.started_at.elapsed().as_secs());
        write!(self.err, "\r\x1b[K{}", self.palette.dim(&text))?;
        self.has_spinner = true;
        self.err.flush()
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.close()?;
        self.clear_spinner()?;
        writeln!(self.err, "{text}")
    }

    /// Writes a line about an item that has started, after the current message. Such an item may start before
    /// the message that announces it is complete.
    pub fn line_after_message(&mut self, text: String) -> io::Result<()> {
        match &self.open {
            Some(open) if open.kind == TextKind::Message && !open.at_line_start => {
                self.held.push(text);
                Ok(())
            }
            _ => self.line(&text),
        }
    }

    /// Writes the output of a command.
    pub fn command_output(&mut self, text: &str) -> io::Result<()> {
        let text = without_control_characters(text);
        self.line(&self.palette.dim(text.trim_end_matches('\n')))
    }

    /// Writes a delta. A delta of another item begins on a new line.
    pub fn delta(&mut self, item: &ItemId, kind: TextKind, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|open| open.item != *item) {
            self.close()?;
            self.open = Some(OpenText { item: item.clone(), kind, at_line_start: true });
            self.streamed.insert(item.clone());
        }
        self.clear_spinner()?;
        self.write_text(kind, &without_control_characters(text))?;
        if let Some(open) = &mut self.open {
            open.at_line_start = text.ends_with('\n');
        }
        Ok(())
    }

    /// Returns whether deltas of a completed item have been written, and forgets the item.
    pub fn take_streamed(&mut self, item: Option<&ItemId>) -> bool {
        item.is_some_and(|id| self.streamed.remove(id))
    }

    /// Writes the whole answer to `out`, unless it has been streamed there.
    pub fn answer(&mut self, text: &str) -> io::Result<()> {
        if self.streams_answers || text.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Ends the line of the streamed text.
    pub fn close(&mut self) -> io::Result<()> {
        if let Some(open) = self.open.take()
            && !open.at_line_start
        {
            self.write_text(open.kind, "\n")?;
        }
        std::mem::take(&mut self.held).iter().try_for_each(|line| writeln!(self.err, "{line}"))
    }

    /// Ends the current line and removes the spinner.
    pub fn finish(&mut self) -> io::Result<()> {
        self.close()?;
        self.clear_spinner()
    }

    fn write_text(&mut self, kind: TextKind, text: &str) -> io::Result<()> {
        let writer = match kind {
            TextKind::Message if self.streams_answers => &mut self.out,
            _ => &mut self.err,
        };
        match kind {
            TextKind::Message => write!(writer, "{text}")?,
            TextKind::Thought | TextKind::Output => write!(writer, "{}", self.palette.dim(text))?,
        }
        writer.flush()
    }

    fn clear_spinner(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_spinner) {
            write!(self.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}
