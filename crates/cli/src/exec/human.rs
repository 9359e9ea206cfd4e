//! Reports a run as text: events to standard error, the agent's answer to standard output.
//!
//! If standard output is a terminal, messages are streamed there. Otherwise they are shown on standard error,
//! and the last one is written to standard output at the end.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
};

use codicil_client::{ClientError, CompletedTurn};
use codicil_protocol::{
    CommandExecutionStatus, ErrorNotification, ItemId, McpServerStartupState,
    McpServerStatusUpdatedNotification, McpToolCallStatus, PatchApplyStatus, PatchChangeKind, SandboxPolicy,
    ServerNotification, ThreadItem, TurnPlanStepStatus, TurnPlanUpdatedNotification,
};

use super::{
    report::{failed_server, with_details},
    screen::{ReportScreen, TextKind},
    thread::ExecThread,
    usage::TokenCounter,
};
use crate::style::{ColorChoice, without_control_characters};

pub struct HumanReport {
    screen: ReportScreen,
    usage: TokenCounter,
    /// The working directory. Paths below it are shown relative to it.
    directory: PathBuf,
    /// The command that was shown last. The end of any other one names its command.
    last_command: Option<ItemId>,
}

impl HumanReport {
    /// Writes to standard error and standard output.
    pub fn new(color: ColorChoice) -> Self {
        Self::on(ReportScreen::new(color), "")
    }

    /// Writes to another screen, for a thread in `directory`.
    pub fn on(screen: ReportScreen, directory: impl Into<PathBuf>) -> Self {
        Self { screen, usage: TokenCounter::default(), directory: directory.into(), last_command: None }
    }

    pub fn is_terminal(&self) -> bool {
        self.screen.is_terminal()
    }

    pub fn tick(&mut self) -> io::Result<()> {
        self.screen.tick()
    }

    /// Writes a line that does not belong to an event.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.screen.line(text)
    }

    pub fn thread_opened(&mut self, thread: &ExecThread) -> io::Result<()> {
        self.usage = TokenCounter::of(&thread.thread);
        self.directory = PathBuf::from(&thread.cwd);
        let effort =
            thread.effort.as_ref().map(|effort| format!(", effort {}", word(effort))).unwrap_or_default();
        let rows = [
            ("thread", thread.thread.id.to_string()),
            ("directory", thread.cwd.clone()),
            ("model", format!("{} ({}{effort})", thread.model, thread.provider)),
            ("sandbox", sandbox(&thread.sandbox).to_owned()),
            ("approvals", word(&thread.approval_policy)),
        ];
        self.line(&self.screen.palette.bold(concat!("codicil ", env!("CARGO_PKG_VERSION"))))?;
        for (name, value) in rows {
            self.line(
                &self.screen.palette.dim(&format!("{name:<10} {}", without_control_characters(&value))),
            )?;
        }
        Ok(())
    }

    pub fn event(&mut self, event: &ServerNotification) -> io::Result<()> {
        use ServerNotification as N;
        self.usage.on_event(event);
        match event {
            N::ItemStarted(started) => self.started(&started.item),
            N::ItemCompleted(completed) => self.completed(&completed.item),
            N::AgentMessageDelta(it) => self.screen.delta(&it.item_id, TextKind::Message, &it.delta),
            N::ReasoningSummaryTextDelta(it) => self.screen.delta(&it.item_id, TextKind::Thought, &it.delta),
            N::ReasoningTextDelta(it) => self.screen.delta(&it.item_id, TextKind::Thought, &it.delta),
            N::ReasoningSummaryPartAdded(it) if it.summary_index > 0 => {
                self.screen.delta(&it.item_id, TextKind::Thought, "\n\n")
            }
            N::CommandExecutionOutputDelta(it) => {
                self.last_command = self.last_command.take().filter(|last| *last == it.item_id);
                self.screen.delta(&it.item_id, TextKind::Output, &it.delta)
            }
            N::TurnPlanUpdated(plan) => self.plan(plan),
            N::ErrorReported(report) => self.error(report),
            N::ConfigWarning(warning) => {
                self.warn(&warning.summary)?;
                warning.details.as_deref().map_or(Ok(()), |details| self.warn(details))
            }
            N::DeprecationNotice(notice) => self.warn(&notice.summary),
            N::McpServerStartupStatusUpdated(server) => self.mcp_server(server),
            N::ModelRerouted(route) => self.warn(&format!(
                "the provider answers with {} instead of {}",
                route.to_model, route.from_model
            )),
            _ => Ok(()),
        }
    }

    pub fn warn(&mut self, text: &str) -> io::Result<()> {
        self.line(&self.screen.palette.yellow(&format!("! {}", without_control_characters(text))))
    }

    pub fn turn_ended(&mut self, result: &Result<CompletedTurn, ClientError>) -> io::Result<()> {
        self.screen.finish()?;
        let completed = match result {
            Ok(turn) => Some(turn),
            Err(ClientError::TurnCancelled(turn)) => {
                self.line(&self.screen.palette.yellow("interrupted"))?;
                Some(&turn.so_far)
            }
            Err(error) => {
                self.line(
                    &self
                        .screen
                        .palette
                        .red(&format!("error: {}", without_control_characters(&error.to_string()))),
                )?;
                error.unfinished().map(|turn| &turn.so_far)
            }
        };
        if let Some(used) = self.usage.used() {
            let text = format!("tokens     {} in, {} out", used.input_tokens, used.output_tokens);
            self.line(&self.screen.palette.dim(&text))?;
        }
        completed.map_or(Ok(()), |turn| self.screen.answer(&turn.agent_message))
    }

    fn started(&mut self, item: &ThreadItem) -> io::Result<()> {
        let line = match item {
            ThreadItem::CommandExecution { id, command, .. } => {
                self.last_command = Some(id.clone());
                format!(
                    "{} {}",
                    self.screen.palette.cyan("$"),
                    self.screen.palette.bold(&without_control_characters(&script_of(command)))
                )
            }
            ThreadItem::McpToolCall { server, tool, arguments, .. } => {
                let call = format!("{server}.{tool} {arguments}");
                format!("{} {}", self.screen.palette.cyan("@"), without_control_characters(&call))
            }
            ThreadItem::ContextCompaction { .. } => self.screen.palette.dim("shortening the history"),
            _ => return Ok(()),
        };
        self.screen.line_after_message(line)
    }

    fn completed(&mut self, item: &ThreadItem) -> io::Result<()> {
        let was_streamed = self.screen.take_streamed(item.id());
        match item {
            ThreadItem::AgentMessage { id, text, .. } if !was_streamed => {
                self.screen.delta(id, TextKind::Message, text)?;
                self.screen.take_streamed(Some(id));
            }
            ThreadItem::Reasoning { id, summary, .. } if !was_streamed && !summary.is_empty() => {
                self.screen.delta(id, TextKind::Thought, &summary.join("\n\n"))?;
                self.screen.take_streamed(Some(id));
            }
            _ => {}
        }
        self.screen.close()?;
        match item {
            ThreadItem::CommandExecution {
                id,
                command,
                status,
                exit_code,
                duration_ms,
                aggregated_output,
                ..
            } => {
                if !was_streamed
                    && let Some(output) = aggregated_output.as_deref().filter(|text| !text.is_empty())
                {
                    self.screen.command_output(output)?;
                }
                let is_last = self.last_command.as_ref() == Some(id);
                let named = (!is_last).then(|| script_of(command));
                self.command_end(status, *exit_code, *duration_ms, named.as_deref())
            }
            ThreadItem::FileChange { changes, status, .. } => {
                for change in changes {
                    self.line(&format!(
                        "{} {}",
                        self.change_sign(&change.kind, status),
                        without_control_characters(self.relative_path(&change.path))
                    ))?;
                    self.diff(&change.diff, &change.kind)?;
                }
                Ok(())
            }
            ThreadItem::McpToolCall { status, error, .. } => match (status, error) {
                (_, Some(error)) => self.line(
                    &self.screen.palette.red(&format!("  {}", without_control_characters(&error.message))),
                ),
                (McpToolCallStatus::Failed, None) => self.line(&self.screen.palette.red("  failed")),
                _ => self.line(&self.screen.palette.dim("  done")),
            },
            ThreadItem::WebSearch { query, .. } => {
                self.line(&format!("{} {}", self.screen.palette.cyan("?"), without_control_characters(query)))
            }
            ThreadItem::ImageView { path, .. } => {
                self.line(&self.screen.palette.dim(&format!("looked at {}", self.relative_path(path))))
            }
            ThreadItem::Plan { text, .. } => self.line(&without_control_characters(text)),
            _ => Ok(()),
        }
    }

    fn relative_path<'p>(&self, path: &'p str) -> &'p str {
        let below = Path::new(path).strip_prefix(&self.directory).ok();
        below.filter(|_| !self.directory.as_os_str().is_empty()).and_then(Path::to_str).unwrap_or(path)
    }

    /// Reports the end of a command, with its name if other commands have been shown since it started.
    fn command_end(
        &mut self,
        status: &CommandExecutionStatus,
        exit_code: Option<i32>,
        duration_ms: Option<i64>,
        named: Option<&str>,
    ) -> io::Result<()> {
        let name = named.map(|script| format!("  $ {}", without_control_characters(script)));
        let name = name.unwrap_or_default();
        let time = duration_ms.map(|millis| format!(", {:.1} s", millis as f64 / 1000.0)).unwrap_or_default();
        let code = exit_code.map(|code| format!("exit {code}"));
        let text = match status {
            CommandExecutionStatus::Declined => self.screen.palette.yellow(&format!("  declined{name}")),
            CommandExecutionStatus::Completed => {
                let end = code.unwrap_or_else(|| "done".to_owned());
                self.screen.palette.dim(&format!("  {end}{time}{name}"))
            }
            _ => {
                let end = code.unwrap_or_else(|| "failed".to_owned());
                self.screen.palette.red(&format!("  {end}{time}{name}"))
            }
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
            PatchApplyStatus::Completed | PatchApplyStatus::InProgress => self.screen.palette.cyan(sign),
            PatchApplyStatus::Declined => self.screen.palette.yellow(&format!("declined {sign}")),
            _ => self.screen.palette.red(&format!("failed {sign}")),
        }
    }

    /// Writes a diff. The diff of a new or deleted file is its content, which gets a sign per line here.
    fn diff(&mut self, diff: &str, kind: &PatchChangeKind) -> io::Result<()> {
        for line in diff.lines() {
            let line = without_control_characters(line);
            let text = match kind {
                PatchChangeKind::Add => self.screen.palette.green(&format!("  +{line}")),
                PatchChangeKind::Delete => self.screen.palette.red(&format!("  -{line}")),
                _ if line.starts_with('+') => self.screen.palette.green(&format!("  {line}")),
                _ if line.starts_with('-') => self.screen.palette.red(&format!("  {line}")),
                _ => self.screen.palette.dim(&format!("  {line}")),
            };
            self.line(&text)?;
        }
        Ok(())
    }

    fn plan(&mut self, plan: &TurnPlanUpdatedNotification) -> io::Result<()> {
        self.line(&self.screen.palette.bold("plan"))?;
        if let Some(explanation) = &plan.explanation {
            self.line(&self.screen.palette.dim(&format!("  {}", without_control_characters(explanation))))?;
        }
        for step in &plan.plan {
            let text = without_control_characters(&step.step);
            let line = match step.status {
                TurnPlanStepStatus::Completed => self.screen.palette.dim(&format!("  [x] {text}")),
                TurnPlanStepStatus::InProgress => format!("  [>] {text}"),
                _ => format!("  [ ] {text}"),
            };
            self.line(&line)?;
        }
        Ok(())
    }

    /// Reports an error that is retried, with its reason. The error that ends the turn is reported at its end, except
    /// for the details, which the end does not have.
    fn error(&mut self, report: &ErrorNotification) -> io::Result<()> {
        let details = report.error.additional_details.as_deref();
        if report.will_retry {
            return self.warn(&with_details(&report.error.message, details));
        }
        details.map_or(Ok(()), |details| self.warn(details))
    }

    /// Reports an MCP server that did not start. The error contains the end of its standard error.
    fn mcp_server(&mut self, server: &McpServerStatusUpdatedNotification) -> io::Result<()> {
        if server.status != McpServerStartupState::Failed {
            return Ok(());
        }
        let text = failed_server(server);
        let mut lines = text.lines();
        self.warn(lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| {
            let line = format!("  {}", without_control_characters(line));
            self.line(&self.screen.palette.dim(&line))
        })
    }
}

/// Returns the script of a command that runs in a shell, or the command itself.
fn script_of(command: &str) -> Cow<'_, str> {
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

/// Returns the name of a setting in the protocol.
fn word(setting: &impl serde::Serialize) -> String {
    match serde_json::to_value(setting) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(value) => value.to_string(),
        Err(_) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests;
