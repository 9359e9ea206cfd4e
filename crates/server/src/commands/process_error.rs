//! The errors of `process/*`. A process is run like a command of `command/exec`; only the texts differ.

use codicil_exec::SpawnError;

use super::CommandError;

/// Why a process was not started or not reached.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("processHandle must not be empty")]
    EmptyHandle,
    #[error("process/spawn timeoutMs must be non-negative, got {0}")]
    NegativeTimeout(i64),
    #[error("process/spawn size requires tty: true")]
    SizeWithoutTerminal,
    #[error("process size rows and cols must be greater than 0")]
    ZeroSize,
    #[error("process/writeStdin requires deltaBase64 or closeStdin")]
    NothingToWrite,
    /// Holds the handle as a JSON string, which cannot span lines.
    #[error("duplicate active process handle: {0}")]
    DuplicateHandle(String),
    /// Holds the handle as a JSON string.
    #[error("no active process for process handle {0}")]
    NotRunning(String),
    #[error("stdin streaming is not enabled for this process")]
    NoStdin,
    #[error("failed to spawn process: {0}")]
    Spawn(std::io::Error),
    #[error("process/spawn runs outside the sandbox, which the administrator does not allow: {0}")]
    NotAllowed(codicil_config::NotAllowed),
    #[error(transparent)]
    Command(CommandError),
}

impl From<CommandError> for ProcessError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NegativeTimeout(given) => Self::NegativeTimeout(given),
            CommandError::SizeWithoutTerminal => Self::SizeWithoutTerminal,
            CommandError::ZeroSize => Self::ZeroSize,
            CommandError::NothingToWrite => Self::NothingToWrite,
            CommandError::DuplicateId(handle) => Self::DuplicateHandle(handle),
            CommandError::NotRunning(handle) => Self::NotRunning(handle),
            CommandError::NoStdin => Self::NoStdin,
            CommandError::Spawn(SpawnError::Io(error)) => Self::Spawn(error),
            CommandError::Policy(refusal) => Self::NotAllowed(refusal),
            other => Self::Command(other),
        }
    }
}
