//! `shell_command`: a command whose call waits for its end.

use std::time::Duration;

use codicil_protocol::CommandExecutionSource;
use serde::Deserialize;

use super::{
    Ran, TurnTools, Wanted,
    escalation::Escalation,
    text::{exit_text, plain},
};
use crate::tools::call::{Call, Cancelled, Output, number, say};

/// When a command is ended, unless the model says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Arguments {
    command: String,
    workdir: Option<String>,
    login: Option<bool>,
    #[serde(default, deserialize_with = "number")]
    timeout_ms: Option<u64>,
    #[serde(flatten)]
    escalation: Escalation,
}

impl TurnTools {
    pub(in crate::tools) async fn shell_command(&self, call: &Call) -> Result<Output, Cancelled> {
        let arguments: Arguments = match call.arguments() {
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
        let wanted = Wanted {
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
            Ran::Exited(ended) | Ran::Denied(ended) => {
                let mut output = plain(&ended.report.output);
                if ended.timed_out {
                    output =
                        format!("command timed out after {} milliseconds\n{output}", timeout.as_millis());
                }
                let output = codicil_prompts::truncate_output(&output, self.output_tokens(None));
                say(exit_text(ended.code, ended.ran, &output))
            }
            Ran::Not(why) => Self::failed(&wanted, &item.command, &why),
            // Without patience a call lasts as long as its command.
            Ran::Running { .. } => Self::failed(&wanted, &item.command, "it is still running"),
        })
    }
}
