//! The run for people: what happens goes to standard error as it happens, the agent's answer to standard output.
//!
//! When standard output is a terminal, messages are written there while they come. Otherwise they are shown on
//! standard error, and the last one is written to standard output at the end.

use std::{
    borrow::Cow,
    collections::HashSet,
    io::{self, IsTerminal, Write},
    time::Instant,
};

use codicil_client::{ClientError, CompletedTurn};
use codicil_protocol::{
    CommandExecutionStatus, ErrorNotification, ItemId, McpToolCallStatus, PatchApplyStatus, PatchChangeKind,
    SandboxPolicy, ServerNotification, ThreadItem, TurnPlanStepStatus, TurnPlanUpdatedNotification,
};

use super::{
    args::Color,
    session::Session,
    style::{Palette, harmless},
    usage::Usage,
};

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];

pub struct Human {
    palette: Palette,
    /// For what happens.
    err: Writer,
    /// For what the agent says.
    out: Writer,
    /// Somebody watches what happens.
    is_live: bool,
    /// Messages are written to `out` while they come.
    answers_live: bool,
    began: Instant,
    ticks: usize,
    /// The line that shows that something is going on is there.
    has_spinner: bool,
    /// Text that is being written piece by piece.
    open: Option<Open>,
    /// Items of which pieces have been written.
    streamed: HashSet<ItemId>,
    /// Lines that came in the middle of a sentence.
    held: Vec<String>,
    usage: Usage,
}

struct Open {
    item: ItemId,
    stream: Stream,
    at_line_start: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Thought,
    Output,
    Message,
}

type Writer = Box<dyn Write + Send>;

impl Human {
    /// Writes to standard error and standard output.
    pub fn new(color: Color) -> Self {
        Self {
            is_live: io::stderr().is_terminal(),
            answers_live: io::stdout().is_terminal(),
            ..Self::to(Box::new(io::stderr()), Box::new(io::stdout()), Palette::new(color))
        }
    }

    /// Writes elsewhere, as if nobody watched.
    pub fn to(err: Writer, out: Writer, palette: Palette) -> Self {
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
            usage: Usage::default(),
        }
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }

    pub fn begun(&mut self, session: &Session) -> io::Result<()> {
        self.usage = Usage::of(&session.thread);
        let effort =
            session.effort.as_ref().map(|effort| format!(", effort {}", word(effort))).unwrap_or_default();
        let rows = [
            ("thread", session.thread.id.to_string()),
            ("directory", session.cwd.clone()),
            ("model", format!("{} ({}{effort})", session.model, session.provider)),
            ("sandbox", sandbox(&session.sandbox).to_owned()),
            ("approvals", word(&session.approval_policy)),
        ];
        self.line(&self.palette.bold(concat!("codicil ", env!("CARGO_PKG_VERSION"))))?;
        for (name, value) in rows {
            self.line(&self.palette.dim(&format!("{name:<10} {}", harmless(&value))))?;
        }
        Ok(())
    }

    pub fn event(&mut self, event: &ServerNotification) -> io::Result<()> {
        use ServerNotification as N;
        self.usage.note(event);
        match event {
            N::ItemStarted(started) => self.started(&started.item),
            N::ItemCompleted(completed) => self.completed(&completed.item),
            N::AgentMessageDelta(it) => self.piece(&it.item_id, Stream::Message, &it.delta),
            N::ReasoningSummaryTextDelta(it) => self.piece(&it.item_id, Stream::Thought, &it.delta),
            N::ReasoningTextDelta(it) => self.piece(&it.item_id, Stream::Thought, &it.delta),
            N::ReasoningSummaryPartAdded(it) if it.summary_index > 0 => {
                self.piece(&it.item_id, Stream::Thought, "\n\n")
            }
            N::CommandExecutionOutputDelta(it) => self.piece(&it.item_id, Stream::Output, &it.delta),
            N::TurnPlanUpdated(plan) => self.plan(plan),
            N::ErrorReported(report) => self.error(report),
            N::ConfigWarning(warning) => {
                self.warn(&warning.summary)?;
                warning.details.as_deref().map_or(Ok(()), |details| self.warn(details))
            }
            N::DeprecationNotice(notice) => self.warn(&notice.summary),
            N::ModelRerouted(route) => self.warn(&format!(
                "the provider answers with {} instead of {}",
                route.to_model, route.from_model
            )),
            _ => Ok(()),
        }
    }

    pub fn warn(&mut self, text: &str) -> io::Result<()> {
        self.line(&self.palette.yellow(&format!("! {}", harmless(text))))
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

    pub fn ended(&mut self, result: &Result<CompletedTurn, ClientError>) -> io::Result<()> {
        self.close()?;
        self.clear()?;
        let so_far = match result {
            Ok(done) => Some(done),
            Err(ClientError::TurnCancelled(turn)) => {
                self.line(&self.palette.yellow("interrupted"))?;
                Some(&turn.so_far)
            }
            Err(error) => {
                self.line(&self.palette.red(&format!("error: {}", harmless(&error.to_string()))))?;
                error.unfinished().map(|turn| &turn.so_far)
            }
        };
        if let Some(used) = self.usage.used() {
            let text = format!("tokens     {} in, {} out", used.input_tokens, used.output_tokens);
            self.line(&self.palette.dim(&text))?;
        }
        match so_far {
            Some(done) if !self.answers_live && !done.agent_message.is_empty() => {
                writeln!(self.out, "{}", done.agent_message)?;
                self.out.flush()
            }
            _ => Ok(()),
        }
    }

    fn started(&mut self, item: &ThreadItem) -> io::Result<()> {
        let line = match item {
            ThreadItem::CommandExecution { command, .. } => {
                format!("{} {}", self.palette.cyan("$"), self.palette.bold(&harmless(&plain(command))))
            }
            ThreadItem::McpToolCall { server, tool, arguments, .. } => {
                let call = format!("{server}.{tool} {arguments}");
                format!("{} {}", self.palette.cyan("@"), harmless(&call))
            }
            ThreadItem::ContextCompaction { .. } => self.palette.dim("shortening the history"),
            _ => return Ok(()),
        };
        // Work may begin before the sentence that announces it has been told to its end.
        match &self.open {
            Some(open) if open.stream == Stream::Message && !open.at_line_start => {
                self.held.push(line);
                Ok(())
            }
            _ => self.line(&line),
        }
    }

    fn completed(&mut self, item: &ThreadItem) -> io::Result<()> {
        let was_streamed = item.id().is_some_and(|id| self.streamed.remove(id));
        match item {
            ThreadItem::AgentMessage { id, text, .. } if !was_streamed => {
                self.piece(&id.clone(), Stream::Message, text)?;
                self.streamed.remove(id);
            }
            ThreadItem::Reasoning { id, summary, .. } if !was_streamed && !summary.is_empty() => {
                self.piece(&id.clone(), Stream::Thought, &summary.join("\n\n"))?;
                self.streamed.remove(id);
            }
            _ => {}
        }
        self.close()?;
        match item {
            ThreadItem::CommandExecution { status, exit_code, duration_ms, aggregated_output, .. } => {
                if !was_streamed
                    && let Some(output) = aggregated_output.as_deref().filter(|text| !text.is_empty())
                {
                    self.block(output)?;
                }
                self.command_end(status, *exit_code, *duration_ms)
            }
            ThreadItem::FileChange { changes, status, .. } => {
                for change in changes {
                    self.line(&format!(
                        "{} {}",
                        self.change_sign(&change.kind, status),
                        harmless(&change.path)
                    ))?;
                    self.diff(&change.diff, &change.kind)?;
                }
                Ok(())
            }
            ThreadItem::McpToolCall { status, error, .. } => match (status, error) {
                (_, Some(error)) => self.line(&self.palette.red(&format!("  {}", harmless(&error.message)))),
                (McpToolCallStatus::Failed, None) => self.line(&self.palette.red("  failed")),
                _ => self.line(&self.palette.dim("  done")),
            },
            ThreadItem::WebSearch { query, .. } => {
                self.line(&format!("{} {}", self.palette.cyan("?"), harmless(query)))
            }
            ThreadItem::ImageView { path, .. } => self.line(&self.palette.dim(&format!("looked at {path}"))),
            ThreadItem::Plan { text, .. } => self.line(&harmless(text)),
            _ => Ok(()),
        }
    }

    fn command_end(
        &mut self,
        status: &CommandExecutionStatus,
        exit_code: Option<i32>,
        duration_ms: Option<i64>,
    ) -> io::Result<()> {
        let time = duration_ms.map(|millis| format!(", {:.1} s", millis as f64 / 1000.0)).unwrap_or_default();
        let code = exit_code.map(|code| format!("exit {code}"));
        let text = match status {
            CommandExecutionStatus::Declined => self.palette.yellow("  declined"),
            CommandExecutionStatus::Completed => {
                self.palette.dim(&format!("  {}{time}", code.unwrap_or_else(|| "done".to_owned())))
            }
            _ => self.palette.red(&format!("  {}{time}", code.unwrap_or_else(|| "failed".to_owned()))),
        };
        self.line(&text)
    }

    fn change_sign(&self, kind: &PatchChangeKind, status: &PatchApplyStatus) -> String {
        let sign = match kind {
            PatchChangeKind::Add => "+",
            PatchChangeKind::Delete => "-",
            PatchChangeKind::Update { .. } | PatchChangeKind::Unrecognized(_) => "~",
        };
        match status {
            PatchApplyStatus::Completed | PatchApplyStatus::InProgress => self.palette.cyan(sign),
            PatchApplyStatus::Declined => self.palette.yellow(&format!("declined {sign}")),
            _ => self.palette.red(&format!("failed {sign}")),
        }
    }

    /// A diff with signs; of new and deleted files the content, with the sign that it means.
    fn diff(&mut self, diff: &str, kind: &PatchChangeKind) -> io::Result<()> {
        for line in diff.lines() {
            let line = harmless(line);
            let text = match kind {
                PatchChangeKind::Add => self.palette.green(&format!("  +{line}")),
                PatchChangeKind::Delete => self.palette.red(&format!("  -{line}")),
                _ if line.starts_with('+') => self.palette.green(&format!("  {line}")),
                _ if line.starts_with('-') => self.palette.red(&format!("  {line}")),
                _ => self.palette.dim(&format!("  {line}")),
            };
            self.line(&text)?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: &TurnPlanUpdatedNotification) -> io::Result<()> {
        self.line(&self.palette.bold("plan"))?;
        if let Some(explanation) = &plan.explanation {
            self.line(&self.palette.dim(&format!("  {}", harmless(explanation))))?;
        }
        for step in &plan.plan {
            let text = harmless(&step.step);
            let line = match step.status {
                TurnPlanStepStatus::Completed => self.palette.dim(&format!("  [x] {text}")),
                TurnPlanStepStatus::InProgress => format!("  [>] {text}"),
                _ => format!("  [ ] {text}"),
            };
            self.line(&line)?;
        }
        Ok(())
    }

    /// The error that ends the turn is told at its end.
    fn error(&mut self, report: &ErrorNotification) -> io::Result<()> {
        if report.will_retry { self.warn(&report.error.message) } else { Ok(()) }
    }
}

/// Writing.
impl Human {
    /// A line of its own.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.close()?;
        self.clear()?;
        writeln!(self.err, "{text}")
    }

    /// Text of several lines, as a command wrote it.
    fn block(&mut self, text: &str) -> io::Result<()> {
        let text = harmless(text);
        self.line(&self.palette.dim(text.trim_end_matches('\n')))
    }

    /// More of a text; text of another item ends its line first.
    fn piece(&mut self, item: &ItemId, stream: Stream, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|open| open.item != *item) {
            self.close()?;
            self.open = Some(Open { item: item.clone(), stream, at_line_start: true });
            self.streamed.insert(item.clone());
        }
        self.clear()?;
        self.put(stream, &harmless(text))?;
        if let Some(open) = &mut self.open {
            open.at_line_start = text.ends_with('\n');
        }
        Ok(())
    }

    fn put(&mut self, stream: Stream, text: &str) -> io::Result<()> {
        let writer = match stream {
            Stream::Message if self.answers_live => &mut self.out,
            _ => &mut self.err,
        };
        match stream {
            Stream::Message => write!(writer, "{text}")?,
            Stream::Thought | Stream::Output => write!(writer, "{}", self.palette.dim(text))?,
        }
        writer.flush()
    }

    /// Ends the line of a text that was being written.
    fn close(&mut self) -> io::Result<()> {
        if let Some(open) = self.open.take()
            && !open.at_line_start
        {
            self.put(open.stream, "\n")?;
        }
        std::mem::take(&mut self.held).iter().try_for_each(|line| writeln!(self.err, "{line}"))
    }

    fn clear(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_spinner) {
            write!(self.err, "\r\x1b[K")?;
        }
        Ok(())
    }
}

/// The command itself, where a shell was started for it.
fn plain(command: &str) -> Cow<'_, str> {
    match shlex::split(command).as_deref() {
        Some([_, flag, script]) if matches!(flag.as_str(), "-c" | "-lc") => Cow::Owned(script.clone()),
        _ => Cow::Borrowed(command),
    }
}

fn sandbox(policy: &SandboxPolicy) -> &'static str {
    match policy {
        SandboxPolicy::DangerFullAccess => "danger-full-access",
        SandboxPolicy::ReadOnly { .. } => "read-only",
        SandboxPolicy::ExternalSandbox { .. } => "external",
        SandboxPolicy::WorkspaceWrite { .. } => "workspace-write",
        SandboxPolicy::Unrecognized(_) => "unknown",
    }
}

/// The wire's own word for a setting.
fn word(setting: &impl serde::Serialize) -> String {
    match serde_json::to_value(setting) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(value) => value.to_string(),
        Err(_) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests;
