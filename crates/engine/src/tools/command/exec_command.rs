//! `exec_command`: runs a command in a session that may outlive the call.

use std::{path::PathBuf, time::Duration};

use codicil_model::ToolSpec;
use codicil_protocol::CommandExecutionSource;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CommandOutcome, RequestedCommand, command_failed,
    escalation::{EscalationArguments, add_escalation_schema},
    output::{TerminalState, plain_text, session_text},
    shell_argv,
};
use crate::tools::{
    TurnTools, apply_patch,
    builtin::{BuiltinTool, HookView},
    call::{ToolCall, ToolResult, lenient_number, text_output},
    offer::{ShellTools, ToolOffer},
    schema::{boolean, function, number, string},
};

const NAME: &str = "exec_command";

/// How long a call waits for its command, unless the model gives a time.
const DEFAULT_YIELD_TIME: Duration = Duration::from_secs(10);
const MIN_YIELD_TIME: Duration = Duration::from_millis(250);
pub(super) const MAX_YIELD_TIME: Duration = Duration::from_secs(30);

pub(in crate::tools) struct ExecCommand;

#[derive(Deserialize)]
struct ExecArguments {
    cmd: String,
    workdir: Option<String>,
    shell: Option<PathBuf>,
    login: Option<bool>,
    #[serde(default)]
    tty: bool,
    #[serde(default, deserialize_with = "lenient_number")]
    yield_time_ms: Option<u64>,
    #[serde(default, deserialize_with = "lenient_number")]
    max_output_tokens: Option<u64>,
    #[serde(flatten)]
    escalation: EscalationArguments,
}

impl BuiltinTool for ExecCommand {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if offer.shell != ShellTools::Sessions {
            return None;
        }
        let mut properties = json!({
            "cmd": string("The shell command to run."),
            "workdir": string("Where to run it; the turn's working directory by default."),
            "shell": string("The shell to run it with; the user's own by default."),
            "login": boolean("Whether the shell reads the user's profile first. True by default."),
            "tty": boolean(
                "Whether the command gets a terminal, which programs that ask questions need. False by default."
            ),
            "yield_time_ms": number(
                "How long to wait for the end, in milliseconds. A command that takes longer goes on as a session."
            ),
            "max_output_tokens": number("How much of the output to show. More is cut in its middle."),
        });
        add_escalation_schema(&mut properties, offer.exec_permissions);
        let description = "Runs a command and returns its output. A command that is still running after \
                           `yield_time_ms` stays alive; its session id is returned for `write_stdin`.";
        Some(function(NAME, description, properties, &["cmd"]))
    }

    fn runs_in_parallel(&self) -> bool {
        true
    }

    fn hook_view(&self, call: &ToolCall) -> Option<HookView> {
        Some(bash_hook_view(call, "cmd"))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: ExecArguments = call.arguments()?;
    let argv = shell_argv(turn, arguments.shell, &arguments.cmd, arguments.login).await;
    let cwd = turn.path(arguments.workdir.as_deref().unwrap_or_default());
    if let Some(patch) = apply_patch::find_in_command(turn, &argv) {
        return apply_patch::apply_from_command(turn, call, patch, &cwd).await;
    }
    let request = RequestedCommand {
        tool: NAME,
        argv,
        cwd,
        permissions: arguments.escalation.permissions(turn).await,
        justification: arguments.escalation.justification,
        prefix_rule: arguments.escalation.prefix_rule,
        source: CommandExecutionSource::UnifiedExecStartup,
        tty: arguments.tty,
        timeout: None,
        yield_time: Some(yield_time(arguments.yield_time_ms, DEFAULT_YIELD_TIME, MAX_YIELD_TIME)),
    };
    let (item, outcome) = super::run(turn, call, &request).await?;
    let limit = turn.output_tokens(arguments.max_output_tokens);
    let (state, report) = match outcome {
        CommandOutcome::Exited(ended) => (TerminalState::Exited(ended.code), ended.report),
        CommandOutcome::Running { session, report } => (TerminalState::Running(session), report),
        CommandOutcome::NotRun(why) => return Err(command_failed(&request, &item.command, &why)),
        CommandOutcome::DeniedBySandbox(ended) => {
            let output = plain_text(&ended.report.output);
            let output = codicil_prompts::truncate_output(&output, limit);
            let why = format!("the sandbox stopped it (exit code {})\nOutput:\n{output}", ended.code);
            return Err(command_failed(&request, &item.command, &why));
        }
    };
    Ok(text_output(session_text(Some(&item.command), report.waited, state, &report.output, limit)))
}

/// Returns how long a call waits, within the limits.
pub(super) fn yield_time(requested_ms: Option<u64>, default: Duration, max: Duration) -> Duration {
    requested_ms.map_or(default, Duration::from_millis).clamp(MIN_YIELD_TIME, max.max(MIN_YIELD_TIME))
}

/// Returns a call that runs a shell command as hooks see it. `argument` holds the command.
pub(super) fn bash_hook_view(call: &ToolCall, argument: &str) -> HookView {
    let input = call.input_value();
    let command = input.get(argument).and_then(Value::as_str);
    HookView { tool: "Bash".to_owned(), input: json!({ "command": command }) }
}
