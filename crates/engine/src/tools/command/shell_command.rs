//! `shell_command`: runs a command and waits for its end.

use std::time::Duration;

use codicil_model::ToolSpec;
use codicil_protocol::CommandExecutionSource;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    CommandOutcome, RequestedCommand, command_failed,
    escalation::{EscalationArguments, add_escalation_schema},
    exec_command::bash_hook_view,
    output::{exit_text, plain_text},
    shell_argv,
};
use crate::tools::{
    TurnTools, apply_patch,
    builtin::{BuiltinTool, HookView},
    call::{ToolCall, ToolResult, lenient_number, text_output},
    offer::{ShellTools, ToolOffer},
    schema::{boolean, function, number, string},
};

const NAME: &str = "shell_command";

/// After this time a command is ended, unless the model gives a time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

pub(in crate::tools) struct ShellCommand;

#[derive(Deserialize)]
struct ShellArguments {
    command: String,
    workdir: Option<String>,
    login: Option<bool>,
    #[serde(default, deserialize_with = "lenient_number")]
    timeout_ms: Option<u64>,
    #[serde(flatten)]
    escalation: EscalationArguments,
}

impl BuiltinTool for ShellCommand {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if offer.shell != ShellTools::Calls {
            return None;
        }
        let mut properties = json!({
            "command": string("The shell command to run."),
            "workdir": string("Where to run it; the turn's working directory by default."),
            "timeout_ms": number("When to give up on it, in milliseconds. 10000 by default."),
            "login": boolean("Whether the shell reads the user's profile first. True by default."),
        });
        add_escalation_schema(&mut properties, offer.exec_permissions);
        let description = "Runs a command in the user's shell, waits for its end and returns its output.";
        Some(function(NAME, description, properties, &["command"]))
    }

    fn hook_view(&self, call: &ToolCall) -> Option<HookView> {
        Some(bash_hook_view(call, "command"))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: ShellArguments = call.arguments()?;
    let argv = shell_argv(turn, None, &arguments.command, arguments.login).await;
    let cwd = turn.path(arguments.workdir.as_deref().unwrap_or_default());
    if let Some(patch) = apply_patch::find_in_command(turn, &argv) {
        return apply_patch::apply_from_command(turn, call, patch, &cwd).await;
    }
    let max_timeout = turn.config.settings.codicil.deadlines.tool;
    let timeout = arguments.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis).min(max_timeout);
    let request = RequestedCommand {
        tool: NAME,
        argv,
        cwd,
        permissions: arguments.escalation.permissions(turn).await,
        justification: arguments.escalation.justification,
        prefix_rule: arguments.escalation.prefix_rule,
        source: CommandExecutionSource::Agent,
        tty: false,
        timeout: Some(timeout),
        yield_time: None,
    };
    let (item, outcome) = super::run(turn, call, &request).await?;
    match outcome {
        CommandOutcome::Exited(ended) | CommandOutcome::DeniedBySandbox(ended) => {
            let mut output = plain_text(&ended.report.output);
            if ended.timed_out {
                output = format!("command timed out after {} milliseconds\n{output}", timeout.as_millis());
            }
            let output = codicil_prompts::truncate_output(&output, turn.output_tokens(None));
            Ok(text_output(exit_text(ended.code, ended.ran, &output)))
        }
        CommandOutcome::NotRun(why) => Err(command_failed(&request, &item.command, &why)),
        // Cannot happen: a call without a yield time lasts as long as its command.
        CommandOutcome::Running { .. } => Err(command_failed(&request, &item.command, "it is still running")),
    }
}
