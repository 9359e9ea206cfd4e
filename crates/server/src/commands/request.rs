//! The params of `command/exec` and `process/spawn`, checked and with their defaults.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use codicil_exec::TerminalSize;
use codicil_protocol::{CommandExecParams, Patch, ProcessSpawnParams, SandboxPolicy};

use super::{CommandError, ProcessError};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of each output stream that a client gets by default.
const DEFAULT_OUTPUT_CAP: u64 = 1 << 20;

/// A command to run.
#[derive(Debug)]
pub struct ExecRequest {
    pub command: Vec<String>,
    pub process_id: Option<String>,
    pub terminal: Option<TerminalSize>,
    pub input: InputMode,
    pub delivery: OutputDelivery,
    /// Bytes of each output stream; `None` for no limit.
    pub cap: Option<u64>,
    pub timeout: Option<Duration>,
    pub cwd: Option<PathBuf>,
    /// Changes of the environment. `None` removes a variable.
    pub env: BTreeMap<String, Option<String>>,
    /// `None` for the configured policy.
    pub policy: Option<SandboxPolicy>,
    /// The permission profile whose policy is used instead.
    pub profile: Option<String>,
    pub family: CommandFamily,
}

/// The methods that a command belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFamily {
    /// `command/exec`.
    Exec,
    /// `process/spawn`.
    Process,
}

/// The source of the command's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    None,
    FromClient,
}

/// How the client gets the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputDelivery {
    InResponse,
    Streamed,
}

impl ExecRequest {
    pub fn takes_input(&self) -> bool {
        self.input == InputMode::FromClient
    }
}

impl TryFrom<CommandExecParams> for ExecRequest {
    type Error = CommandError;

    /// Checks the params. The order of the checks is part of the contract: it decides which of two mistakes is
    /// reported.
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
        let size = params.size.map(|size| terminal_size(size.rows, size.cols)).transpose()?;
        let terminal = tty.then(|| size.unwrap_or_default());
        let takes_input = tty || params.stream_stdin.unwrap_or_default();
        let is_streamed = tty || params.stream_stdout_stderr.unwrap_or_default();
        if params.process_id.is_none() && (takes_input || is_streamed) {
            return Err(CommandError::NoId);
        }
        if params.permission_profile.is_some() && params.sandbox_policy.is_some() {
            return Err(CommandError::ProfileAndPolicy);
        }
        Ok(Self {
            command: params.command,
            process_id: params.process_id,
            terminal,
            input: if takes_input { InputMode::FromClient } else { InputMode::None },
            delivery: if is_streamed { OutputDelivery::Streamed } else { OutputDelivery::InResponse },
            cap,
            timeout,
            cwd: params.cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from),
            env: params.env.unwrap_or_default(),
            policy: params.sandbox_policy,
            profile: params.permission_profile,
            family: CommandFamily::Exec,
        })
    }
}

impl TryFrom<ProcessSpawnParams> for ExecRequest {
    type Error = ProcessError;

    /// Checks the params, in the order of the reference server. The process runs outside the sandbox.
    fn try_from(params: ProcessSpawnParams) -> Result<Self, ProcessError> {
        if params.command.is_empty() {
            return Err(CommandError::Empty.into());
        }
        if params.process_handle.is_empty() {
            return Err(ProcessError::EmptyHandle);
        }
        if params.size.is_some() && !params.tty {
            return Err(ProcessError::SizeWithoutTerminal);
        }
        let timeout = match params.timeout_ms {
            Patch::Missing => timeout(None, false)?,
            Patch::Null => None,
            Patch::Value(requested) => timeout(Some(requested), false)?,
        };
        let size = params.size.map(|size| terminal_size(size.rows, size.cols)).transpose()?;
        let takes_input = params.tty || params.stream_stdin;
        let is_streamed = params.tty || params.stream_stdout_stderr;
        Ok(Self {
            command: params.command,
            process_id: Some(params.process_handle),
            terminal: params.tty.then(|| size.unwrap_or_default()),
            input: if takes_input { InputMode::FromClient } else { InputMode::None },
            delivery: if is_streamed { OutputDelivery::Streamed } else { OutputDelivery::InResponse },
            cap: params.output_bytes_cap.apply(Some(DEFAULT_OUTPUT_CAP)),
            timeout,
            cwd: Some(params.cwd.to_path_buf()),
            env: params.env.unwrap_or_default(),
            policy: Some(SandboxPolicy::DangerFullAccess),
            profile: None,
            family: CommandFamily::Process,
        })
    }
}

/// Checks the size of a terminal.
pub fn terminal_size(rows: u16, cols: u16) -> Result<TerminalSize, CommandError> {
    if rows == 0 || cols == 0 {
        return Err(CommandError::ZeroSize);
    }
    Ok(TerminalSize { rows, cols })
}

fn cap(requested: Option<u64>, is_disabled: bool) -> Result<Option<u64>, CommandError> {
    match (requested, is_disabled) {
        (Some(_), true) => Err(CommandError::CapAndDisabledCap),
        (None, true) => Ok(None),
        (requested, false) => Ok(Some(requested.unwrap_or(DEFAULT_OUTPUT_CAP))),
    }
}

fn timeout(requested: Option<i64>, is_disabled: bool) -> Result<Option<Duration>, CommandError> {
    match (requested, is_disabled) {
        (Some(_), true) => Err(CommandError::TimeoutAndDisabledTimeout),
        (None, true) => Ok(None),
        (None, false) => Ok(Some(DEFAULT_TIMEOUT)),
        (Some(requested), false) => {
            let milliseconds =
                u64::try_from(requested).map_err(|_| CommandError::NegativeTimeout(requested))?;
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
        params.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        ExecRequest::try_from(serde_json::from_value::<CommandExecParams>(params).unwrap())
    }

    #[test]
    fn contradicting_params_are_rejected() {
        let check = |members: Value, expected: &str| {
            let error = request(members.clone()).expect_err("the params are rejected");
            assert_eq!(error.to_string(), expected, "{members}");
        };
        let no_id = "command/exec tty or streaming requires a client-supplied processId";
        let caps = "command/exec cannot set both outputBytesCap and disableOutputCap";
        let timeouts = "command/exec cannot set both timeoutMs and disableTimeout";
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
        // Of two mistakes, the first check in this order is reported.
        check(json!({"size": {"rows": 0, "cols": 0}, "outputBytesCap": 0, "disableOutputCap": true}), {
            "command/exec size requires tty: true"
        });
        check(json!({"tty": true, "size": {"rows": 0, "cols": 0}}), zero);
        check(json!({"streamStdin": true, "timeoutMs": 1, "disableTimeout": true}), timeouts);
    }

    #[test]
    fn missing_params_have_defaults() {
        let plain = request(json!({})).unwrap();
        assert_eq!(plain.cap, Some(1 << 20));
        assert_eq!(plain.timeout, Some(Duration::from_secs(10)));
        assert_eq!(plain.input, InputMode::None);
        assert_eq!(plain.delivery, OutputDelivery::InResponse);
        assert_eq!(plain.terminal, None);
        assert_eq!(plain.process_id, None);
        assert_eq!(plain.cwd, None);

        let unlimited = request(json!({"disableOutputCap": true, "disableTimeout": true})).unwrap();
        assert_eq!(unlimited.cap, None);
        assert_eq!(unlimited.timeout, None);
        assert_eq!(request(json!({"cwd": ""})).unwrap().cwd, None);

        let terminal = request(json!({"tty": true, "processId": ""})).unwrap();
        assert_eq!(terminal.terminal, Some(TerminalSize { rows: 24, cols: 80 }));
        assert_eq!(terminal.input, InputMode::FromClient);
        assert_eq!(terminal.delivery, OutputDelivery::Streamed);

        let with_input = request(json!({"streamStdin": true, "processId": "p"})).unwrap();
        assert_eq!(with_input.input, InputMode::FromClient);
        assert_eq!(with_input.delivery, OutputDelivery::InResponse);
    }
}
