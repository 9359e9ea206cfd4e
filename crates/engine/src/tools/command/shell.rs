//! `shell_command`: a command whose call waits for its end.

use std::time::Duration;

use codicil_protocol::CommandExecutionSource;
use serde::Deserialize;

use super::{
    CommandOutcome, RequestedCommand, TurnTools,
    escalation::EscalationArguments,
    text::{exit_text, plain},
};
use crate::tools::call::{ToolCall, ToolOutput, TurnCancelled, number, say};

/// When a command is ended, unless the model says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct ShellArguments {
    command: String,
    workdir: Option<String>,
    login: Option<bool>,
    #[serde(default, deserialize_with = "number")]
    timeout_ms: Option<u64>,
    #[serde(flatten)]
    escalation: EscalationArguments,
}

impl TurnTools {
    pub(in crate::tools) async fn shell_command(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: ShellArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let argv = self.shell_argv(None, &arguments.command, arguments.login).await;
        let cwd = self.path(arguments.workdir.as_deref().unwrap_or_default());
        if let Some(found) = codicil_patch::find_in_command(&argv) {
            return self.apply_patch_of_command(call, found, &cwd).await;
        }
        let longest = self.config.settings.codicil.deadlines.tool;
        let timeout = arguments.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis).min(longest);
        let wanted = RequestedCommand {
            tool: "shell_command",
            argv,
            cwd,
            permissions: arguments.escalation.permissions(self).await,
            justification: arguments.escalation.justification,
            prefix_rule: arguments.escalation.prefix_rule,
            source: CommandExecutionSource::Agent,
            tty: false,
            timeout: Some(timeout),
            patience: None,
        };
        let (item, ran) = self.run_command(call, wanted.clone()).await?;
        Ok(match ran {
            CommandOutcome::Exited(ended) | CommandOutcome::Denied(ended) => {
                let mut output = plain(&ended.report.output);
                if ended.timed_out {
                    output =
                        format!("command timed out after {} milliseconds\n{output}", timeout.as_millis());
                }
                let output = codicil_prompts::truncate_output(&output, self.output_tokens(None));
                say(exit_text(ended.code, ended.ran, &output))
            }
            CommandOutcome::Not(why) => Self::failed(&wanted, &item.command, &why),
            // Without patience a call lasts as long as its command.
            CommandOutcome::Running { .. } => Self::failed(&wanted, &item.command, "it is still running"),
        })
    }
}
