//! Codes of errors about the machine of the server: commands, processes, environments, files.

use std::io;

use codicil_engine::ConfineError;
use codicil_exec::SpawnError;
use codicil_fs::{FileError, QueryTooLong, WatchError};
use codicil_sandbox::SandboxError;

use crate::{
    commands::CommandError, commands::ProcessError, error::RpcError, files::ClientWatchError,
    files::SearchSessionError, handlers::environment::EnvironmentError,
};

impl From<CommandError> for RpcError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Empty
            | CommandError::NoId
            | CommandError::Policy(_)
            | CommandError::DuplicateId(_)
            | CommandError::NotRunning(_)
            | CommandError::NoStdin
            | CommandError::StdinClosed
            | CommandError::Resize(_)
            | CommandError::ProfileAndPolicy
            | CommandError::Profile(_)
            | CommandError::Config(_)
            | CommandError::Confine(
                ConfineError::Network(_)
                | ConfineError::Sandbox(SandboxError::UnknownPolicy(_) | SandboxError::WritableRoot(_)),
            ) => Self::invalid_request(error),
            CommandError::SizeWithoutTerminal
            | CommandError::ZeroSize
            | CommandError::CapAndDisabledCap
            | CommandError::TimeoutAndDisabledTimeout
            | CommandError::NegativeTimeout(_)
            | CommandError::NothingToWrite
            | CommandError::Base64(_) => Self::invalid_params(error),
            CommandError::TooMany | CommandError::Spawn(SpawnError::TooMany) => Self::overloaded(),
            CommandError::Confine(
                ConfineError::Record(_)
                | ConfineError::Sandbox(
                    SandboxError::Unavailable(_) | SandboxError::Prepare { .. } | SandboxError::Step { .. },
                ),
            )
            | CommandError::Spawn(SpawnError::NoCommand | SpawnError::Io(_))
            | CommandError::Proxy(_)
            | CommandError::Ending => Self::internal(error),
        }
    }
}

impl From<ProcessError> for RpcError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::EmptyHandle
            | ProcessError::DuplicateHandle(_)
            | ProcessError::NotRunning(_)
            | ProcessError::NoStdin
            | ProcessError::NotAllowed(_) => Self::invalid_request(error),
            ProcessError::NegativeTimeout(_)
            | ProcessError::SizeWithoutTerminal
            | ProcessError::ZeroSize
            | ProcessError::NothingToWrite => Self::invalid_params(error),
            ProcessError::Spawn(_) => Self::internal(error),
            ProcessError::Command(error) => error.into(),
        }
    }
}

impl From<EnvironmentError> for RpcError {
    fn from(error: EnvironmentError) -> Self {
        match error {
            EnvironmentError::Unknown(_)
            | EnvironmentError::EmptyId
            | EnvironmentError::ReservedId
            | EnvironmentError::EmptyUrl
            | EnvironmentError::Remote => Self::invalid_request(error),
        }
    }
}

impl From<FileError> for RpcError {
    fn from(error: FileError) -> Self {
        match error {
            // The system rejects the path itself, for example because it contains a NUL byte.
            FileError::Io(ref cause) if cause.kind() == io::ErrorKind::InvalidInput => {
                Self::invalid_request(error)
            }
            FileError::Io(_) => Self::internal(error),
            FileError::TooLarge { .. }
            | FileError::TooManyEntries { .. }
            | FileError::NotRegular
            | FileError::Base64(_)
            | FileError::NotRecursive
            | FileError::IntoItself
            | FileError::SpecialFile
            | FileError::Root => Self::invalid_request(error),
        }
    }
}

impl From<WatchError> for RpcError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Busy => Self::overloaded(),
            WatchError::System(_) | WatchError::Closed => Self::internal(error),
        }
    }
}

impl From<ClientWatchError> for RpcError {
    fn from(error: ClientWatchError) -> Self {
        match error {
            ClientWatchError::TooMany | ClientWatchError::IdInUse(_) => Self::invalid_request(error),
        }
    }
}

impl From<QueryTooLong> for RpcError {
    fn from(error: QueryTooLong) -> Self {
        Self::invalid_request(error)
    }
}

impl From<SearchSessionError> for RpcError {
    fn from(error: SearchSessionError) -> Self {
        match error {
            SearchSessionError::EmptyId | SearchSessionError::TooMany | SearchSessionError::NotFound(_) => {
                Self::invalid_request(error)
            }
            // The reference server reports this one as its own failure.
            SearchSessionError::NoRoots => Self::internal(error),
        }
    }
}
