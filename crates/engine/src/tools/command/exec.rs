//! `exec_command` and `write_stdin`: commands in sessions that may outlive the call.

use std::{path::PathBuf, time::Duration};

use codicil_config::EffectiveConfig;
use codicil_exec::{SessionError, SessionId, ShellStart, UserShell};
use codicil_protocol::{
    CommandExecutionSource, CommandExecutionTerminalInteraction, Frame, TerminalInteractionNotification,
};
use serde::Deserialize;

use super::{
    CommandOutcome, RequestedCommand, TurnTools,
    escalation::EscalationArguments,
    text::{TerminalState, plain, session_text},
};
use crate::{
    tools::call::{ToolCall, ToolOutput, TurnCancelled, number, say},
    turn_channel::TurnEvent,
};

/// How long a call waits for its command, unless the model says.
const DEFAULT_YIELD: Duration = Duration::from_secs(10);
/// How long a call that only types waits for an answer.
const TYPING_YIELD: Duration = Duration::from_millis(250);
/// How long a call that only looks waits for something to see.
const LOOKING_YIELD: Duration = Duration::from_secs(5);
const SHORTEST_YIELD: Duration = Duration::from_millis(250);
const LONGEST_YIELD: Duration = Duration::from_secs(30);
/// How long a poll may take, unless the configuration says.
const LONGEST_LOOK: Duration = Duration::from_secs(300);
/// How long the item of a command that has ended may take to be complete.
const COMPLETION_TIME: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
struct ExecArguments {
    cmd: String,
    workdir: Option<String>,
    shell: Option<PathBuf>,
    login: Option<bool>,
    #[serde(default)]
    tty: bool,
    #[serde(default, deserialize_with = "number")]
    yield_time_ms: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    max_output_tokens: Option<u64>,
    #[serde(flatten)]
    escalation: EscalationArguments,
}

#[derive(Deserialize)]
struct StdinArguments {
    #[serde(deserialize_with = "session")]
    session_id: u32,
    #[serde(default)]
    chars: String,
    #[serde(default, deserialize_with = "number")]
    yield_time_ms: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    max_output_tokens: Option<u64>,
}

fn session<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let id = number(deserializer)?.and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| serde::de::Error::custom("session_id is not the number of a session"))
}

impl TurnTools {
    pub(in crate::tools) async fn exec_command(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: ExecArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let argv = self.shell_argv(arguments.shell, &arguments.cmd, arguments.login).await;
        let cwd = self.path(arguments.workdir.as_deref().unwrap_or_default());
        if let Some(found) = codicil_patch::find_in_command(&argv) {
            return self.apply_patch_of_command(call, found, &cwd).await;
        }
        let wanted = RequestedCommand {
            tool: "exec_command",
            argv,
            cwd,
            permissions: arguments.escalation.permissions(self).await,
            justification: arguments.escalation.justification,
            prefix_rule: arguments.escalation.prefix_rule,
            source: CommandExecutionSource::UnifiedExecStartup,
            tty: arguments.tty,
            timeout: None,
            patience: Some(wait(arguments.yield_time_ms, DEFAULT_YIELD, LONGEST_YIELD)),
        };
        let (item, ran) = self.run_command(call, wanted.clone()).await?;
        let limit = self.output_tokens(arguments.max_output_tokens);
        Ok(match ran {
            CommandOutcome::Exited(ended) => {
                let state = TerminalState::Exited(ended.code);
                say(session_text(
                    Some(&item.command),
                    ended.report.waited,
                    state,
                    &ended.report.output,
                    limit,
                ))
            }
            CommandOutcome::Running { session, report } => {
                let state = TerminalState::Running(session);
                say(session_text(Some(&item.command), report.waited, state, &report.output, limit))
            }
            CommandOutcome::Not(why) => Self::failed(&wanted, &item.command, &why),
            CommandOutcome::Denied(ended) => {
                let output = plain(&ended.report.output);
                let output = codicil_prompts::truncate_output(&output, limit);
                let why = format!("the sandbox stopped it (exit code {})\nOutput:\n{output}", ended.code);
                Self::failed(&wanted, &item.command, &why)
            }
        })
    }

    /// The words that run a line in the person's shell, or in one that the model chose.
    pub(super) async fn shell_argv(
        &self,
        shell: Option<PathBuf>,
        line: &str,
        login: Option<bool>,
    ) -> Vec<String> {
        let shell = match shell {
            Some(path) => UserShell::at(path),
            None => self.kit.engine.shell().await,
        };
        shell.argv(line, self::login(&self.config, login))
    }

    /// How much of an output the model gets.
    pub(in crate::tools) fn output_tokens(&self, asked: Option<u64>) -> u64 {
        let ceiling = self.config.settings.tool_output_token_limit;
        let ceiling = ceiling.unwrap_or(codicil_prompts::DEFAULT_OUTPUT_TOKENS);
        asked.map_or(ceiling, |asked| asked.min(ceiling))
    }

    pub(in crate::tools) async fn write_stdin(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: StdinArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let session = SessionId(arguments.session_id);
        let Some(terminal) = self.kit.terminals().get(&session).cloned() else {
            return Ok(say(format!("write_stdin failed: {}", SessionError::Unknown(session))));
        };
        let params = TerminalInteractionNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: terminal.item.clone(),
            process_id: session.to_string(),
            stdin: arguments.chars.clone(),
        };
        let told =
            TurnEvent::Notification(Frame::notification::<CommandExecutionTerminalInteraction>(&params));
        self.reporter.report_one(told).await;
        let time = match arguments.chars.is_empty() {
            true => {
                let longest = self.config.settings.background_terminal_max_timeout;
                let longest = longest.map_or(LONGEST_LOOK, Duration::from_millis);
                wait(arguments.yield_time_ms, LOOKING_YIELD, longest)
            }
            false => wait(arguments.yield_time_ms, TYPING_YIELD, LONGEST_YIELD),
        };
        let typed = self.kit.engine.terminals.write(&self.kit.owner, session, arguments.chars, time);
        let report = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(TurnCancelled),
            report = typed => match report {
                Ok(report) => report,
                Err(error) => return Ok(say(format!("write_stdin failed: {error}"))),
            },
        };
        let state = match report.exit {
            Some(exit) => {
                // The model goes on once everybody has seen the end.
                let _ = tokio::time::timeout(COMPLETION_TIME, terminal.over.cancelled()).await;
                TerminalState::Exited(exit.code())
            }
            None => TerminalState::Running(session),
        };
        let limit = self.output_tokens(arguments.max_output_tokens);
        Ok(say(session_text(None, report.waited, state, &report.output, limit)))
    }
}

/// Whether a shell reads the person's profile: if the call wants it, and the configuration lets it.
pub(crate) fn login(config: &EffectiveConfig, asked: Option<bool>) -> ShellStart {
    let allowed = config.settings.allow_login_shell.unwrap_or(true);
    if asked.unwrap_or(true) && allowed { ShellStart::Login } else { ShellStart::Plain }
}

fn wait(asked: Option<u64>, default: Duration, longest: Duration) -> Duration {
    asked.map_or(default, Duration::from_millis).clamp(SHORTEST_YIELD, longest.max(SHORTEST_YIELD))
}
