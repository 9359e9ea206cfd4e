//! The errors of `command/exec` and the methods that reach a running command. Their texts are those of the reference
//! server.

use std::io;

use codicil_config::{ConfigError, NotAllowed};
use codicil_engine::{ConfineError, SettingsError};
use codicil_exec::{ResizeError, SpawnError};
use codicil_sandbox::SandboxError;

/// Why a command was not run or not reached. A command that exits with an error is not one of these.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("command must not be empty")]
    Empty,
    #[error("command/exec tty or streaming requires a client-supplied processId")]
    NoId,
    #[error("command/exec size requires tty: true")]
    SizeWithoutTerminal,
    #[error("command/exec size rows and cols must be greater than 0")]
    ZeroSize,
    #[error("command/exec cannot set both outputBytesCap and disableOutputCap")]
    CapAndDisabledCap,
    #[error("command/exec cannot set both timeoutMs and disableTimeout")]
    TimeoutAndDisabledTimeout,
    #[error("command/exec timeoutMs must be non-negative, got {0}")]
    NegativeTimeout(i64),
    #[error("invalid sandbox policy: {0}")]
    Policy(#[from] NotAllowed),

    /// Holds the id as a JSON string, which cannot span lines.
    #[error("duplicate active command/exec process id: {0}")]
    DuplicateId(String),
    /// Holds the id as a JSON string.
    #[error("no active command/exec for process id {0}")]
    NotRunning(String),
    /// The connection has too many commands, or too much input is waiting.
    #[error("too many commands")]
    TooMany,

    #[error("stdin streaming is not enabled for this command/exec")]
    NoStdin,
    #[error("stdin is already closed")]
    StdinClosed,
    #[error("command/exec/write requires deltaBase64 or closeStdin")]
    NothingToWrite,
    #[error("invalid deltaBase64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("failed to resize PTY: {0}")]
    Resize(#[from] ResizeError),

    #[error("`permissionProfile` cannot be combined with `sandboxPolicy`")]
    ProfileAndPolicy,
    #[error(transparent)]
    Profile(#[from] SettingsError),
    #[error("failed to load configuration: {0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Confine(#[from] ConfineError),
    #[error("the proxy of the command could not be opened: {0}")]
    Proxy(io::Error),
    #[error(transparent)]
    Spawn(SpawnError),
    #[error("the server is ending")]
    Ending,
}

impl CommandError {
    pub(super) fn duplicate(id: &str) -> Self {
        Self::DuplicateId(quoted(id))
    }

    pub(super) fn not_running(id: &str) -> Self {
        Self::NotRunning(quoted(id))
    }
}

/// Replaces a spawn error that comes from the sandbox by the sandbox's own error. The child process can only report a
/// number.
impl From<SpawnError> for CommandError {
    fn from(error: SpawnError) -> Self {
        let sandbox_error = match &error {
            SpawnError::Io(error) => SandboxError::from_spawn(error),
            SpawnError::NoCommand | SpawnError::TooMany => None,
        };
        sandbox_error.map_or(Self::Spawn(error), |error| Self::Confine(error.into()))
    }
}

fn quoted(id: &str) -> String {
    serde_json::Value::from(id).to_string()
}
