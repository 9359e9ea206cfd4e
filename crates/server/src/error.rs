//! The one place that knows JSON-RPC codes.

use std::fmt;

use codicil_engine::{
    ConfineError, ForkError, GoalError, MetadataError, RollbackError, SettingsError, ThreadError,
    TurnInputError,
};
use codicil_exec::SpawnError;
use codicil_protocol::rpc::{ErrorObject, codes};
use codicil_sandbox::SandboxError;
use codicil_store::StoreError;
use serde_json::{Value, json};

use crate::commands::CommandError;

/// What a client is told when its request failed.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError(ErrorObject);

impl RpcError {
    /// The request makes no sense, or not now.
    pub fn invalid_request(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_REQUEST, message)
    }

    /// The request was understood, but its values do not fit together.
    pub fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_PARAMS, message)
    }

    /// The server, the system or a backend failed. The causes go to the log, once.
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(codes::INTERNAL_ERROR, error)
    }

    pub fn overloaded() -> Self {
        Self::overloaded_with("Server overloaded; retry later.")
    }

    /// Too much of one thing, which the message names together with what the client can do.
    pub fn overloaded_with(message: impl fmt::Display) -> Self {
        Self::new(codes::OVERLOADED, message)
    }

    pub fn not_initialized() -> Self {
        Self::invalid_request("Not initialized")
    }

    pub fn already_initialized() -> Self {
        Self::invalid_request("Already initialized")
    }

    pub fn experimental(descriptor: &str) -> Self {
        Self::invalid_request(format_args!("{descriptor} requires experimentalApi capability"))
    }

    /// The message would be longer than a client can be sent.
    pub fn too_long(what: &str, bytes: usize, max: usize) -> Self {
        Self::internal(format_args!("the {what} is too long to send: {bytes} bytes, at most {max}"))
    }

    /// The params, or the method, are not what the protocol says.
    pub fn malformed(reason: impl fmt::Display) -> Self {
        Self::invalid_request(format_args!("Invalid request: {reason}"))
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.0.data = Some(data);
        self
    }

    pub fn object(&self) -> &ErrorObject {
        &self.0
    }

    fn new(code: i64, message: impl fmt::Display) -> Self {
        Self(ErrorObject { code, message: message.to_string(), data: None })
    }
}

impl From<ThreadError> for RpcError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::MalformedId(_)
            | ThreadError::NotFound(_)
            | ThreadError::NotLoaded(_)
            | ThreadError::NotStored(_)
            | ThreadError::NotArchived(_)
            | ThreadError::OtherPath { .. }
            | ThreadError::BadRollout { .. }
            | ThreadError::EmptyHistory
            | ThreadError::EphemeralTurns
            | ThreadError::EphemeralDelete(_)
            | ThreadError::NoRealtime(_)
            | ThreadError::NoElicitation
            | ThreadError::DynamicTools(_)
            | ThreadError::ReviewTarget(_)
            | ThreadError::Store(StoreError::InvalidCursor(_)) => Self::invalid_request(error),
            ThreadError::TurnInput(error) => error.into(),
            ThreadError::Fork(error) => error.into(),
            ThreadError::Rollback(error) => error.into(),
            ThreadError::Metadata(error) => error.into(),
            ThreadError::Goal(error) => error.into(),
            ThreadError::Settings(error) => error.into(),
            ThreadError::Busy => Self::overloaded(),
            ThreadError::CannotLocate(_)
            | ThreadError::RequiredServers(_)
            | ThreadError::Closed
            | ThreadError::Store(_) => Self::internal(error),
        }
    }
}

impl From<TurnInputError> for RpcError {
    fn from(error: TurnInputError) -> Self {
        match error {
            TurnInputError::TurnRunning
            | TurnInputError::EmptyInput
            | TurnInputError::EmptyCommand
            | TurnInputError::NothingToSteer
            | TurnInputError::EmptyExpectedTurn
            | TurnInputError::OtherTurn { .. }
            | TurnInputError::NothingToInterrupt => Self::invalid_request(error),
            TurnInputError::TooLong { max, actual } => Self::invalid_params(&error).with_data(json!({
                "input_error_code": "input_too_large",
                "max_chars": max,
                "actual_chars": actual,
            })),
            TurnInputError::NotSteerable { error: ref data, .. } => {
                let data = serde_json::to_value(data).unwrap_or_default();
                Self::invalid_request(&error).with_data(data)
            }
        }
    }
}

impl From<ForkError> for RpcError {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::NoTurn(_)
            | ForkError::TwoPoints
            | ForkError::TurnRunning(_)
            | ForkError::Ephemeral => Self::invalid_request(error),
        }
    }
}

impl From<RollbackError> for RpcError {
    fn from(error: RollbackError) -> Self {
        match error {
            RollbackError::NoTurns | RollbackError::TurnRunning | RollbackError::Ephemeral => {
                Self::invalid_request(error)
            }
        }
    }
}

impl From<MetadataError> for RpcError {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::EmptyName
            | MetadataError::EmptyGitInfo
            | MetadataError::EmptyGitField(_)
            | MetadataError::Ephemeral(_) => Self::invalid_request(error),
        }
    }
}

impl From<GoalError> for RpcError {
    fn from(error: GoalError) -> Self {
        match error {
            GoalError::NoGoal(_)
            | GoalError::EmptyObjective
            | GoalError::LongObjective(_)
            | GoalError::Budget
            | GoalError::Ephemeral(_) => Self::invalid_request(error),
        }
    }
}

impl From<SettingsError> for RpcError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::NoProfile(_)
            | SettingsError::ProfileAnd(_)
            | SettingsError::Config(_)
            | SettingsError::NotAllowed(_)
            | SettingsError::Provider(_)
            | SettingsError::Servers(_) => Self::invalid_request(error),
        }
    }
}

impl From<CommandError> for RpcError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Empty
            | CommandError::NoId
            | CommandError::Policy(_)
            | CommandError::Duplicate(_)
            | CommandError::NotRunning(_)
            | CommandError::NoStdin
            | CommandError::StdinClosed
            | CommandError::Resize(_)
            | CommandError::Config(_)
            | CommandError::Confine(
                ConfineError::Network(_)
                | ConfineError::Sandbox(SandboxError::UnknownPolicy(_) | SandboxError::WritableRoot(_)),
            ) => Self::invalid_request(error),
            CommandError::SizeWithoutTerminal
            | CommandError::NoSize
            | CommandError::CapAndNone
            | CommandError::TimeoutAndNone
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
