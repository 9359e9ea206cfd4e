//! The only place that knows JSON-RPC codes.
//!
//! Each error enum has one exhaustive `From` without a `_` arm, so that the author of a new variant has to choose its
//! code. The constructors that take a code's name are private: other modules return their own errors.

use std::{fmt, io};

use codicil_accounts::AccountError;
use codicil_config::{ConfigError, FeatureError, WriteError};
use codicil_engine::{
    AttachmentError, ClientCallError, ConfineError, ForkError, GoalError, InjectError, MetadataError,
    ProjectError, QueueError, ReadStateError, RequestError, RevertError, RollbackError, SampleError,
    SearchError, SectionError, SettingsError, ThreadError, ThreadListError, TurnInputError,
};
use codicil_exec::SpawnError;
use codicil_extensions::{MarketplaceError, PluginError, SkillsError};
use codicil_fs::{FileError, QueryTooLong, WatchError};
use codicil_mcp::{CallError, LoginError, StatusPageError};
use codicil_migrate::external_agents::ImportError;
use codicil_protocol::rpc::{ErrorObject, codes};
use codicil_sandbox::SandboxError;
use codicil_store::StoreError;
use serde_json::{Value, json};

use crate::{
    commands::{CommandError, ProcessError},
    ephemeral::TooManyEphemeralThreads,
    feedback::FeedbackError,
    files::{ClientWatchError, SearchSessionError},
    guardian_denial::GuardianDenialError,
    handlers::{
        environment::EnvironmentError, hooks::TooManyDirectories, mcp_server::ServerTableError,
        thread::ItemsReadError,
    },
    paging::PageError,
    refusals::ServiceRefusal,
    request_keys::KeyError,
    route::UnroutedMethod,
};

/// The error of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError(ErrorObject);

impl RpcError {
    /// Refuses a request because the client has too many open requests or too much to read.
    pub fn overloaded() -> Self {
        Self::overloaded_with("Server overloaded; retry later.")
    }

    /// Refuses a request that comes before `initialize`.
    pub fn not_initialized() -> Self {
        Self::invalid_request("Not initialized")
    }

    /// Refuses a second `initialize`.
    pub fn already_initialized() -> Self {
        Self::invalid_request("Already initialized")
    }

    /// Refuses an experimental method or field of a client that did not opt in.
    pub fn experimental(descriptor: &str) -> Self {
        Self::invalid_request(format_args!("{descriptor} requires experimentalApi capability"))
    }

    /// Refuses a method of the extension on a connection that did not ask for it.
    pub fn extension(method: &str) -> Self {
        Self::invalid_request(format_args!(
            "{method} requires the codicil capability: send `\"codicil\": {{\"version\": 1}}` in the capabilities of initialize"
        ))
    }

    /// Refuses a subscription at a position on a connection that does not receive positions.
    pub fn no_cursor() -> Self {
        Self::invalid_request(
            "codicil/subscribe requires a cursor: send `\"codicil\": {\"version\": 1, \"cursor\": true}` in the \
             capabilities of initialize",
        )
    }

    /// Refuses a method or params that do not match the protocol.
    pub fn malformed(reason: impl fmt::Display) -> Self {
        Self::invalid_request(format_args!("Invalid request: {reason}"))
    }

    /// Replaces a message that is too long to be sent. `what` is `request` or `response`.
    pub fn too_long(what: &str, bytes: usize, max: usize) -> Self {
        Self::internal(format_args!("the {what} is too long to send: {bytes} bytes, at most {max}"))
    }

    /// Reports that the code that serves a request has panicked.
    pub fn panicked() -> Self {
        Self::internal("internal error")
    }

    pub fn object(&self) -> &ErrorObject {
        &self.0
    }

    /// Reports a request that is not valid, or not valid now.
    fn invalid_request(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_REQUEST, message)
    }

    /// Reports params that are well-formed, but contradict each other.
    fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(codes::INVALID_PARAMS, message)
    }

    /// Reports a failure of the server, the system or a backend.
    fn internal(error: impl fmt::Display) -> Self {
        Self::new(codes::INTERNAL_ERROR, error)
    }

    fn overloaded_with(message: impl fmt::Display) -> Self {
        Self::new(codes::OVERLOADED, message)
    }

    fn new(code: i64, message: impl fmt::Display) -> Self {
        Self(ErrorObject { code, message: message.to_string(), data: None })
    }

    #[must_use]
    fn with_data(mut self, data: impl Into<Option<Value>>) -> Self {
        self.0.data = data.into();
        self
    }
}

impl From<KeyError> for RpcError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Malformed | KeyError::NotKeyed(_) => Self::invalid_params(error),
        }
    }
}

impl From<UnroutedMethod> for RpcError {
    fn from(error: UnroutedMethod) -> Self {
        let reason = match error {
            UnroutedMethod::Unknown(_) => "unknownMethod",
            UnroutedMethod::NotServed(_) => "methodNotServed",
        };
        Self::malformed(error).with_data(json!({ "reason": reason }))
    }
}

impl From<ThreadError> for RpcError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::InUse { ref owner, .. } => {
                let data = json!({ "reason": "threadInUse", "pid": owner.pid });
                Self::invalid_request(error).with_data(data)
            }
            ThreadError::MalformedId(_)
            | ThreadError::NotFound(_)
            | ThreadError::NotLoaded(_)
            | ThreadError::NotStored(_)
            | ThreadError::NotArchived(_)
            | ThreadError::OtherPath { .. }
            | ThreadError::BadRollout { .. }
            | ThreadError::EmptyHistory
            | ThreadError::EphemeralTurns(_)
            | ThreadError::NoEnvironment(_)
            | ThreadError::OtherWriter(_)
            | ThreadError::EphemeralDelete(_)
            | ThreadError::NoRealtime(_)
            | ThreadError::NoRealtimeSession
            | ThreadError::NoElicitation
            | ThreadError::NoProject(_)
            | ThreadError::DynamicTools(_)
            | ThreadError::ReviewTarget(_)
            | ThreadError::Store(StoreError::InvalidCursor(_)) => Self::invalid_request(error),
            ThreadError::KeyConflict(error) => {
                Self::invalid_params(error).with_data(json!({ "codicil": { "code": "keyConflict" } }))
            }
            ThreadError::TurnInput(error) => error.into(),
            ThreadError::Fork(error) => error.into(),
            ThreadError::Rollback(error) => error.into(),
            ThreadError::Revert(error) => error.into(),
            ThreadError::Inject(error) => error.into(),
            ThreadError::List(error) => error.into(),
            ThreadError::Metadata(error) => error.into(),
            ThreadError::Goal(error) => error.into(),
            ThreadError::Queue(error) => error.into(),
            ThreadError::ReadState(error) => error.into(),
            ThreadError::Section(error) => error.into(),
            ThreadError::Project(error) => error.into(),
            ThreadError::Attachment(error) => error.into(),
            ThreadError::Sample(error) => error.into(),
            ThreadError::Search(error) => error.into(),
            ThreadError::Settings(error) => error.into(),
            ThreadError::Request(error) => error.into(),
            ThreadError::Busy => Self::overloaded(),
            ThreadError::CannotLocate(_)
            | ThreadError::RequiredServers(_)
            | ThreadError::NotReplayable(_)
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
            | TurnInputError::ContextName(_)
            | TurnInputError::InputAndToolOutput
            | TurnInputError::EmptyToolName
            | TurnInputError::UnsupportedInput(_)
            | TurnInputError::EmptyCommand
            | TurnInputError::NothingToSteer
            | TurnInputError::EmptyExpectedTurn
            | TurnInputError::OtherTurn { .. }
            | TurnInputError::NothingToInterrupt
            | TurnInputError::InterruptWithoutTurn => Self::invalid_request(error),
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
            // A refusal for the moment, not a failure.
            RollbackError::TurnRunning => Self::invalid_request(error),
            RollbackError::NoTurns | RollbackError::Ephemeral => {
                Self::invalid_request(&error).with_data(serde_json::to_value(error.turn_error()).ok())
            }
            RollbackError::Store(_) => {
                Self::internal(&error).with_data(serde_json::to_value(error.turn_error()).ok())
            }
        }
    }
}

impl From<RevertError> for RpcError {
    fn from(error: RevertError) -> Self {
        match error {
            RevertError::NoTurn(_) | RevertError::Ephemeral => Self::invalid_request(error),
        }
    }
}

impl From<InjectError> for RpcError {
    fn from(error: InjectError) -> Self {
        match error {
            InjectError::NoItems | InjectError::InvalidItem { .. } | InjectError::RemoteImage => {
                Self::invalid_request(error)
            }
        }
    }
}

impl From<ThreadListError> for RpcError {
    fn from(error: ThreadListError) -> Self {
        match error {
            ThreadListError::ParentAndAncestor
            | ThreadListError::Parent(_)
            | ThreadListError::Ancestor(_) => Self::invalid_request(error),
            ThreadListError::Excluded(_) | ThreadListError::NoProject(_) | ThreadListError::Originators => {
                Self::invalid_params(&error)
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

impl From<QueueError> for RpcError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::NoThread(_) => Self::internal(error),
            QueueError::Ephemeral(_)
            | QueueError::NoInput
            | QueueError::Full(_)
            | QueueError::NotQueued(_)
            | QueueError::Order
            | QueueError::Cursor(_)
            | QueueError::Empty
            | QueueError::TurnRunning
            | QueueError::NotLoaded => Self::invalid_request(error),
        }
    }
}

impl From<ReadStateError> for RpcError {
    fn from(error: ReadStateError) -> Self {
        match error {
            ReadStateError::Conflict(ref current) => {
                let data = json!({ "reason": "readStateConflict", "readState": current });
                Self::invalid_request(error).with_data(data)
            }
            ReadStateError::None(_) | ReadStateError::Operation => Self::invalid_request(error),
        }
    }
}

impl From<SectionError> for RpcError {
    fn from(error: SectionError) -> Self {
        match error {
            SectionError::EmptyName | SectionError::NotFound(_) | SectionError::Pinned(_) => {
                Self::invalid_params(error)
            }
            SectionError::Unknown(_) | SectionError::NotInSection { .. } => Self::invalid_request(error),
        }
    }
}

impl From<ProjectError> for RpcError {
    fn from(error: ProjectError) -> Self {
        match error {
            ProjectError::NotFound(_)
            | ProjectError::EmptyKey
            | ProjectError::EmptyName
            | ProjectError::NoBefore(_)
            | ProjectError::DirectionWithoutKey
            | ProjectError::NoThread(_) => Self::invalid_params(error),
        }
    }
}

impl From<AttachmentError> for RpcError {
    fn from(error: AttachmentError) -> Self {
        match error {
            AttachmentError::NoThread(_)
            | AttachmentError::Empty(_)
            | AttachmentError::TooLong(_)
            | AttachmentError::TooMany(_) => Self::invalid_params(error),
        }
    }
}

impl From<SampleError> for RpcError {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::Params(_) | SampleError::NotLoaded | SampleError::OtherTurn => {
                Self::invalid_request(error)
            }
            SampleError::Canceled | SampleError::Model(_) => Self::internal(error),
        }
    }
}

impl From<SearchError> for RpcError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::EmptyTerm(_) => Self::invalid_request(error),
        }
    }
}

impl From<ItemsReadError> for RpcError {
    fn from(error: ItemsReadError) -> Self {
        match error {
            ItemsReadError::Count => Self::invalid_request(error),
        }
    }
}

impl From<RequestError> for RpcError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::NotFound(_) => Self::invalid_request(error),
            RequestError::WrongShape(_) | RequestError::NoAnswer => Self::invalid_params(&error),
            RequestError::NotStored => Self::internal(error),
        }
    }
}

impl From<SettingsError> for RpcError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::NoProfile(_)
            | SettingsError::ProfileAnd(_)
            | SettingsError::EmptyEffort
            | SettingsError::ReviewerOfTurn
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
            | CommandError::DuplicateId(_)
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

impl From<ServiceRefusal> for RpcError {
    fn from(error: ServiceRefusal) -> Self {
        match error {
            ServiceRefusal::SignedOut(_)
            | ServiceRefusal::ApiKey(_)
            | ServiceRefusal::NotServed(_)
            | ServiceRefusal::EmptyIdempotencyKey
            | ServiceRefusal::NoManagedLogin
            | ServiceRefusal::NoGatewaySignIn
            | ServiceRefusal::RemoteControlSignedOut
            | ServiceRefusal::RemoteControlApiKey
            | ServiceRefusal::RemoteControlDisabled
            | ServiceRefusal::NoPairingCode
            | ServiceRefusal::CatalogueSignedOut(_)
            | ServiceRefusal::CatalogueApiKey(_)
            | ServiceRefusal::McpEvents => Self::invalid_request(error),
            ServiceRefusal::UserVerification => {
                let data = json!({ "type": "unavailable", "reason": "providerUnavailable" });
                Self::internal(error).with_data(data)
            }
            ServiceRefusal::Prediction => Self::new(codes::METHOD_NOT_FOUND, error),
        }
    }
}

impl From<GuardianDenialError> for RpcError {
    fn from(error: GuardianDenialError) -> Self {
        match error {
            GuardianDenialError::Invalid(_)
            | GuardianDenialError::NotDenied(_)
            | GuardianDenialError::Inject(_) => Self::invalid_request(error),
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

impl From<MarketplaceError> for RpcError {
    fn from(error: MarketplaceError) -> Self {
        match error {
            MarketplaceError::EmptySource
            | MarketplaceError::SourceFormat
            | MarketplaceError::Unresolved(_)
            | MarketplaceError::NotADirectory
            | MarketplaceError::LocalReference
            | MarketplaceError::LocalSparsePaths
            | MarketplaceError::Reference(_)
            | MarketplaceError::OtherSource(_)
            | MarketplaceError::NotConfigured(_)
            | MarketplaceError::NotGit(_) => Self::invalid_request(error),
            MarketplaceError::Manifest(error) => error.into(),
            MarketplaceError::Write(error) => error.into(),
            MarketplaceError::Git { .. } | MarketplaceError::Install(_) | MarketplaceError::Ending => {
                Self::internal(error)
            }
        }
    }
}

impl From<ClientCallError> for RpcError {
    fn from(error: ClientCallError) -> Self {
        match error {
            // The client talks to the server: its errors are passed on as they are.
            ClientCallError::Call(CallError::Server { code, message, data }) => {
                Self::new(code.into(), message).with_data(data)
            }
            ClientCallError::Call(
                CallError::UnknownServer(_)
                | CallError::UnknownTool { .. }
                | CallError::DisabledTool { .. }
                | CallError::Arguments
                | CallError::NotStarted(_)
                | CallError::NotSignedIn
                | CallError::MissingScopes(_)
                | CallError::TimedOut(_)
                | CallError::Cancelled
                | CallError::Closed(_)
                | CallError::Unreadable(_),
            )
            | ClientCallError::Arguments { .. } => Self::internal(error),
        }
    }
}

impl From<AccountError> for RpcError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::ExternalActive
            | AccountError::KeysDisabled
            | AccountError::ChatgptDisabled
            | AccountError::ExternalDisabled
            | AccountError::OtherWorkspace { .. }
            | AccountError::LoginId(_)
            | AccountError::NoEmail
            | AccountError::NotSignedIn
            | AccountError::NotChatgpt => Self::invalid_request(error),
            AccountError::Token(_)
            | AccountError::Callback(_)
            | AccountError::Issuer(_)
            | AccountError::DeviceCode(_)
            | AccountError::Save(_)
            | AccountError::SignOut(_)
            | AccountError::RateLimits(_)
            | AccountError::Config(_) => Self::internal(error),
        }
    }
}

impl From<ConfigError> for RpcError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::NoHome
            | ConfigError::Unreadable { .. }
            | ConfigError::InFile(_)
            | ConfigError::Value(_)
            | ConfigError::Override { .. }
            | ConfigError::UnknownProfile(_)
            | ConfigError::UnknownFeature(_) => {
                Self::internal(format_args!("failed to read configuration layers: {error}"))
            }
        }
    }
}

impl From<WriteError> for RpcError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Readonly
            | WriteError::VersionConflict
            | WriteError::Invalid(_)
            | WriteError::Edit(_)
            | WriteError::CannotEdit(_) => Self::invalid_request(&error).with_data(error.data()),
            WriteError::Unusable(error) => {
                Self::internal(format_args!("failed to load configuration: {error}"))
            }
            WriteError::Busy { .. } | WriteError::Io { .. } => Self::internal(error),
        }
    }
}

impl From<FeatureError> for RpcError {
    fn from(error: FeatureError) -> Self {
        match error {
            FeatureError::BadCursor(_)
            | FeatureError::CursorTooLarge(_)
            | FeatureError::Unknown(_)
            | FeatureError::Alias { .. }
            | FeatureError::NotSwitchable(_) => Self::invalid_request(error),
        }
    }
}

impl From<ImportError> for RpcError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Config(error) => error.into(),
            ImportError::Io { .. } | ImportError::Json(_) | ImportError::NoObject | ImportError::Toml(_) => {
                Self::internal(error)
            }
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
            | FileError::NothingToCopy
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

impl From<PluginError> for RpcError {
    fn from(error: PluginError) -> Self {
        match error {
            PluginError::Disabled
            | PluginError::BadId(_)
            | PluginError::BadName { .. }
            | PluginError::NoMarketplace(_)
            | PluginError::BadMarketplace { .. }
            | PluginError::NotFound { .. }
            | PluginError::NotAvailable { .. }
            | PluginError::NoSource(_)
            | PluginError::NoManifest
            | PluginError::OtherName { .. }
            | PluginError::NotCopied(_) => Self::invalid_request(error),
            PluginError::Install(_)
            | PluginError::Uninstall(_)
            | PluginError::Persist(_)
            | PluginError::Clear(_)
            | PluginError::Remote(_) => Self::internal(error),
        }
    }
}

impl From<SkillsError> for RpcError {
    fn from(error: SkillsError) -> Self {
        match error {
            SkillsError::RelativeRoot(_) | SkillsError::TooMany => Self::invalid_request(error),
            SkillsError::Selector => Self::invalid_params(error),
            SkillsError::Write(error) => error.into(),
        }
    }
}

impl From<TooManyDirectories> for RpcError {
    fn from(error: TooManyDirectories) -> Self {
        Self::invalid_request(error)
    }
}

impl From<ServerTableError> for RpcError {
    fn from(error: ServerTableError) -> Self {
        match error {
            ServerTableError::Config(_) => Self::internal(error),
            ServerTableError::Server(_) => Self::invalid_request(error),
        }
    }
}

impl From<StatusPageError> for RpcError {
    fn from(error: StatusPageError) -> Self {
        match error {
            StatusPageError::Cursor(_) | StatusPageError::Beyond { .. } => Self::invalid_request(error),
        }
    }
}

impl From<LoginError> for RpcError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::UnknownServer(_) | LoginError::NotHttp => Self::invalid_request(error),
            LoginError::Failed { .. } => Self::internal(error),
        }
    }
}

impl From<FeedbackError> for RpcError {
    fn from(error: FeedbackError) -> Self {
        match error {
            FeedbackError::Disabled | FeedbackError::RelativePath => Self::invalid_request(error),
            FeedbackError::Io(_) | FeedbackError::PathExists | FeedbackError::Save(_) => {
                Self::internal(error)
            }
        }
    }
}

impl From<PageError> for RpcError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::InvalidCursor(_) | PageError::BeyondEnd { .. } => Self::invalid_request(error),
            PageError::AnchorWithoutTurn | PageError::UnknownAnchor => Self::invalid_params(error),
        }
    }
}

impl From<TooManyEphemeralThreads> for RpcError {
    fn from(error: TooManyEphemeralThreads) -> Self {
        Self::overloaded_with(error)
    }
}
