//! Lines and running text on a terminal or in a file, so that they do not run into each other.

use std::{
    collections::HashSet,
    io::{self, IsTerminal, Write},
    time::Instant,
};

use codicil_protocol::ItemId;

use crate::style::{ColorChoice, Palette, harmless};

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

pub type OutputWriter = Box<dyn Write + Send>;

pub struct ReportScreen {
    pub palette: Palette,
    /// For what happens.
    err: OutputWriter,
    /// For what the agent says.
    out: OutputWriter,
    /// Somebody watches what happens.
    is_live: bool,
    /// Messages are written to `out` while they come.
    answers_live: bool,
    began: Instant,
    ticks: usize,
    /// The line that shows that something is going on is there.
    has_spinner: bool,
    /// Text that is being written piece by piece.
    open: Option<OpenText>,
    /// Items of which pieces have been written.
    streamed: HashSet<ItemId>,
    /// Lines that came in the middle of a sentence.
    held: Vec<String>,
}

struct OpenText {
    item: ItemId,
    stream: TextKind,
    at_line_start: bool,
}

/// What a running text is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Thought,
    Output,
    Message,
}

impl ReportScreen {
    /// Standard error and standard output.
    pub fn new(color: ColorChoice) -> Self {
        Self {
            is_live: io::stderr().is_terminal(),
            answers_live: io::stdout().is_terminal(),
            ..Self::to(Box::new(io::stderr()), Box::new(io::stdout()), Palette::new(color))
        }
    }

    /// Elsewhere, as if nobody watched.
    pub fn to(err: OutputWriter, out: OutputWriter, palette: Palette) -> Self {
        Self {
            palette,
            err,
            out,
            is_live: false,
            answers_live: false,
            began: Instant::now(),
            ticks: 0,
            has_spinner: false,
            open: None,
            streamed: HashSet::new(),
            held: Vec::new(),
        }
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Shows that something is going on, as long as nothing else is being written.
    pub fn tick(&mut self) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| !open.at_line_start) {
            return Ok(());
        }
        self.ticks += 1;
        let frame = SPINNER.get(self.ticks % SPINNER.len()).unwrap_or(&"*");
        let text = format!("{frame} working, {} s", self.began.elapsed().as_secs());
        write!(self.err, "\r\x1b[K{}", self.palette.dim(&text))?;
        self.has_spinner = true;
        self.err.flush()
    }

    /// A line of its own.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.close()?;
        self.clear()?;
        writeln!(self.err, "{text}")
    }

    /// A line about work that begins. It may come before the sentence that announces it has been told to its
    /// end, and waits for that.
    pub fn line_after_sentence(&mut self, text: String) -> io::Result<()> {
        match &self.open {
            Some(open) if open.stream == TextKind::Message && !open.at_line_start => {
                self.held.push(text);
                Ok(())
            }
            _ => self.line(&text),
        }
    }

    /// Text of several lines, as a command wrote it.
    pub fn block(&mut self, text: &str) -> io::Result<()> {
        let text = harmless(text);
        self.line(&self.palette.dim(text.trim_end_matches('\n')))
    }

    /// More of a text; text of another item ends its line first.
    pub fn piece(&mut self, item: &ItemId, stream: TextKind, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|open| open.item != *item) {
            self.close()?;
            self.open = Some(OpenText { item: item.clone(), stream, at_line_start: true });
            self.streamed.insert(item.clone());
        }
        self.clear()?;
        self.put(stream, &harmless(text))?;
        if let Some(open) = &mut self.open {
            open.at_line_start = text.ends_with('\n');
        }
        Ok(())
    }

    /// Whether pieces of an item that is complete now have been written.
    pub fn take_streamed(&mut self, item: Option<&ItemId>) -> bool {
        item.is_some_and(|id| self.streamed.remove(id))
    }

    /// The whole answer, where it has not been written while it came.
    pub fn answer(&mut self, text: &str) -> io::Result<()> {
        if self.answers_live || text.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Ends the line of a text that was being written.
    pub fn close(&mut self) -> io::Result<()> {
        if let Some(open) = self.open.take()
            && !open.at_line_start
        {
            self.put(open.stream, "\n")?;
        }
        std::mem::take(&mut self.held).iter().try_for_each(|line| writeln!(self.err, "{line}"))
    }

    /// Leaves nothing half written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.close()?;
        self.clear()
    }

    fn put(&mut self, stream: TextKind, text: &str) -> io::Result<()> {
        let writer = match stream {
            TextKind::Message if self.answers_live => &mut self.out,
            _ => &mut self.err,
        };
        match stream {
            TextKind::Message => write!(writer, "{text}")?,
            TextKind::Thought | TextKind::Output => write!(writer, "{}", self.palette.dim(text))?,
        }
        writer.flush()
    }

    fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_spinner) {
            write!(self.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}
