//! `write_stdin`: writes to a running session, or waits for its output.

use std::time::Duration;

use codicil_exec::{SessionError, SessionId};
use codicil_model::ToolSpec;
use codicil_protocol::{CommandExecutionTerminalInteraction, TerminalInteractionNotification};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    exec_command::{MAX_YIELD_TIME, yield_time},
    input_approval::{self, SessionInput},
    output::{TerminalState, session_text},
};
use crate::tools::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult, lenient_number, text_output},
    offer::{ShellTools, ToolOffer},
    schema::{function, number, string},
};

/// How long a call that writes waits for output.
const WRITE_YIELD_TIME: Duration = Duration::from_millis(250);
/// How long a call that writes nothing waits for output.
const POLL_YIELD_TIME: Duration = Duration::from_secs(5);
/// How long a call that writes nothing may wait, unless the configuration has another limit.
const MAX_POLL_TIME: Duration = Duration::from_secs(300);
/// How long the item of a command that has ended may take to complete.
const COMPLETION_TIME: Duration = Duration::from_secs(2);

pub(in crate::tools) struct WriteStdin;

#[derive(Deserialize)]
struct StdinArguments {
    #[serde(deserialize_with = "session_id")]
    session_id: u32,
    #[serde(default)]
    chars: String,
    #[serde(default, deserialize_with = "lenient_number")]
    yield_time_ms: Option<u64>,
    #[serde(default, deserialize_with = "lenient_number")]
    max_output_tokens: Option<u64>,
}

fn session_id<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let id = lenient_number(deserializer)?.and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| serde::de::Error::custom("session_id is not the number of a session"))
}

impl BuiltinTool for WriteStdin {
    fn name(&self) -> &'static str {
        "write_stdin"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if offer.shell != ShellTools::Sessions {
            return None;
        }
        let properties = json!({
            "session_id": number("The session, as `exec_command` returned it."),
            "chars": string("What to type. Leave it empty to see what has happened since."),
            "yield_time_ms": number("How long to wait for output, in milliseconds."),
            "max_output_tokens": number("How much of the output to show. More is cut in its middle."),
        });
        let description =
            "Types into a running session, or looks at it, and returns what it has written since.";
        Some(function(self.name(), description, properties, &["session_id"]))
    }

    fn runs_in_parallel(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: StdinArguments = call.arguments()?;
    let failed = |error: SessionError| ToolError::Failed(format!("write_stdin failed: {error}"));
    let session = SessionId(arguments.session_id);
    let Some(terminal) = turn.thread.terminals().get(&session).cloned() else {
        return Err(failed(SessionError::Unknown(session)));
    };
    let input = SessionInput { session, terminal: &terminal, chars: &arguments.chars };
    input_approval::approve(turn, call, &input).await?;
    let params = TerminalInteractionNotification {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: terminal.item.clone(),
        process_id: session.to_string(),
        stdin: arguments.chars.clone(),
    };
    turn.notify::<CommandExecutionTerminalInteraction>(&params).await;
    let wait_time = if arguments.chars.is_empty() {
        let max = turn.config.settings.background_terminal_max_timeout;
        let max = max.map_or(MAX_POLL_TIME, Duration::from_millis);
        yield_time(arguments.yield_time_ms, POLL_YIELD_TIME, max)
    } else {
        yield_time(arguments.yield_time_ms, WRITE_YIELD_TIME, MAX_YIELD_TIME)
    };
    let terminals = &turn.thread.engine.terminals;
    let written = terminals.write(&turn.thread.owner, session, arguments.chars, wait_time);
    let Some(report) = turn.cancel.run_until_cancelled(written).await else {
        return Err(ToolError::Cancelled);
    };
    let report = report.map_err(failed)?;
    let state = match report.exit {
        Some(exit) => {
            // Clients see the end of the command before the model continues.
            let _ = tokio::time::timeout(COMPLETION_TIME, terminal.completed.cancelled()).await;
            TerminalState::Exited(exit.code())
        }
        None => TerminalState::Running(session),
    };
    let limit = turn.output_tokens(arguments.max_output_tokens);
    Ok(text_output(session_text(None, report.waited, state, &report.output, limit)))
}
