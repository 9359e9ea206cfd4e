//! What a client asks of `command/exec`, once its values are known to fit together.

use std::{collections::BTreeMap, time::Duration};

use codicil_exec::TerminalSize;
use codicil_protocol::{CommandExecParams, CommandExecTerminalSize, SandboxPolicy};

use super::CommandError;

/// How long a command may take when nothing is said about it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// What is kept or told of each stream when nothing is said about it.
const DEFAULT_CAP: u64 = 1 << 20;

/// One command to run.
#[derive(Debug)]
pub struct ExecRequest {
    pub command: Vec<String>,
    pub process_id: Option<String>,
    pub terminal: Option<TerminalSize>,
    pub input: InputMode,
    pub delivery: OutputDelivery,
    /// Bytes of each stream. `None`: all of them.
    pub cap: Option<u64>,
    pub timeout: Option<Duration>,
    pub cwd: Option<String>,
    /// `None` takes a variable away.
    pub env: BTreeMap<String, Option<String>>,
    pub policy: Option<SandboxPolicy>,
}

/// Whether the client feeds the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    None,
    FromClient,
}

/// How the client gets the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputDelivery {
    InAnswer,
    AsItComes,
}

impl ExecRequest {
    pub fn takes_input(&self) -> bool {
        self.input == InputMode::FromClient
    }
}

impl TryFrom<CommandExecParams> for ExecRequest {
    type Error = CommandError;

    /// The order of the checks is part of the contract: it decides which of two mistakes is told.
    fn try_from(params: CommandExecParams) -> Result<Self, CommandError> {
        let tty = params.tty.unwrap_or_default();
        if params.command.is_empty() {
            return Err(CommandError::Empty);
        }
        if params.size.is_some() && !tty {
            return Err(CommandError::SizeWithoutTerminal);
        }
        let cap = cap(params.output_bytes_cap, params.disable_output_cap.unwrap_or_default())?;
        let timeout = timeout(params.timeout_ms, params.disable_timeout.unwrap_or_default())?;
        let asked = params.size.as_ref().map(size).transpose()?;
        let terminal = tty.then(|| asked.unwrap_or_default());
        let input = tty || params.stream_stdin.unwrap_or_default();
        let streams = tty || params.stream_stdout_stderr.unwrap_or_default();
        if params.process_id.is_none() && (input || streams) {
            return Err(CommandError::NoId);
        }
        Ok(Self {
            command: params.command,
            process_id: params.process_id,
            terminal,
            input: if input { InputMode::FromClient } else { InputMode::None },
            delivery: if streams { OutputDelivery::AsItComes } else { OutputDelivery::InAnswer },
            cap,
            timeout,
            cwd: params.cwd.filter(|cwd| !cwd.is_empty()),
            env: params.env.unwrap_or_default(),
            policy: params.sandbox_policy,
        })
    }
}

/// A size that a terminal can have.
pub fn size(size: &CommandExecTerminalSize) -> Result<TerminalSize, CommandError> {
    match size {
        CommandExecTerminalSize { rows: 0, .. } | CommandExecTerminalSize { cols: 0, .. } => {
            Err(CommandError::NoSize)
        }
        CommandExecTerminalSize { rows, cols } => Ok(TerminalSize { rows: *rows, cols: *cols }),
    }
}

fn cap(asked: Option<u64>, disabled: bool) -> Result<Option<u64>, CommandError> {
    match (asked, disabled) {
        (Some(_), true) => Err(CommandError::CapAndNone),
        (None, true) => Ok(None),
        (asked, false) => Ok(Some(asked.unwrap_or(DEFAULT_CAP))),
    }
}

fn timeout(asked: Option<i64>, disabled: bool) -> Result<Option<Duration>, CommandError> {
    match (asked, disabled) {
        (Some(_), true) => Err(CommandError::TimeoutAndNone),
        (None, true) => Ok(None),
        (None, false) => Ok(Some(DEFAULT_TIMEOUT)),
        (Some(asked), false) => {
            let milliseconds = u64::try_from(asked).map_err(|_| CommandError::NegativeTimeout(asked))?;
            Ok(Some(Duration::from_millis(milliseconds)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(members: Value) -> Result<ExecRequest, CommandError> {
        let mut params = json!({"command": ["true"]});
        let (Some(all), Value::Object(members)) = (params.as_object_mut(), members) else { panic!() };
        all.extend(members);
        ExecRequest::try_from(serde_json::from_value::<CommandExecParams>(params).unwrap())
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let check = |members: Value, expected: &str| {
            let error = request(members.clone()).expect_err("it is refused");
            assert_eq!(error.to_string(), expected, "{members}");
        };
        let no_id = "command/exec tty or streaming requires a client-supplied processId";
        let (caps, timeouts) = (
            "command/exec cannot set both outputBytesCap and disableOutputCap",
            "command/exec cannot set both timeoutMs and disableTimeout",
        );
        let zero = "command/exec size rows and cols must be greater than 0";
        check(json!({"command": []}), "command must not be empty");
        check(json!({"tty": true}), no_id);
        check(json!({"streamStdin": true}), no_id);
        check(json!({"streamStdoutStderr": true}), no_id);
        check(json!({"size": {"rows": 1, "cols": 1}}), "command/exec size requires tty: true");
        check(json!({"tty": true, "processId": "p", "size": {"rows": 0, "cols": 5}}), zero);
        check(json!({"tty": true, "processId": "p", "size": {"rows": 5, "cols": 0}}), zero);
        check(json!({"outputBytesCap": 0, "disableOutputCap": true}), caps);
        check(json!({"timeoutMs": 0, "disableTimeout": true}), timeouts);
        check(json!({"timeoutMs": -1, "disableTimeout": true}), timeouts);
        check(json!({"timeoutMs": -7}), "command/exec timeoutMs must be non-negative, got -7");
        // Of two mistakes, the first in this order is told.
        check(json!({"size": {"rows": 0, "cols": 0}, "outputBytesCap": 0, "disableOutputCap": true}), {
            "command/exec size requires tty: true"
        });
        check(json!({"tty": true, "size": {"rows": 0, "cols": 0}}), zero);
        check(json!({"streamStdin": true, "timeoutMs": 1, "disableTimeout": true}), timeouts);
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let plain = request(json!({})).unwrap();
        assert_eq!((plain.cap, plain.timeout), (Some(1 << 20), Some(Duration::from_secs(10))));
        assert_eq!((plain.input, plain.delivery), (InputMode::None, OutputDelivery::InAnswer));
        assert_eq!((plain.terminal, plain.process_id, plain.cwd), (None, None, None));

        let without = request(json!({"disableOutputCap": true, "disableTimeout": true, "cwd": ""})).unwrap();
        assert_eq!((without.cap, without.timeout, without.cwd), (None, None, None));

        let terminal = request(json!({"tty": true, "processId": ""})).unwrap();
        assert_eq!(terminal.terminal, Some(TerminalSize { rows: 24, cols: 80 }));
        assert_eq!((terminal.input, terminal.delivery), (InputMode::FromClient, OutputDelivery::AsItComes));

        let fed = request(json!({"streamStdin": true, "processId": "p"})).unwrap();
        assert_eq!((fed.input, fed.delivery), (InputMode::FromClient, OutputDelivery::InAnswer));
    }
}
