//! Codes of errors about threads and turns.

use codicil_engine::{
    AttachmentError, ForkError, GoalError, InjectError, MetadataError, ProjectError, QueueError,
    ReadStateError, RequestError, RevertError, RollbackError, SampleError, SearchError, SectionError,
    SettingsError, ThreadError, ThreadListError, TurnInputError,
};
use codicil_protocol::{CodicilMovedThread, ThreadId};
use codicil_store::{OwnerNode, StoreError};
use serde_json::json;

use crate::{
    ephemeral::TooManyEphemeralThreads,
    error::{ErrorPlace, OWNED_BY_NODE, RpcError, THREAD_CLOSED},
    guardian_denial::GuardianDenialError,
    handlers::{
        memory::MemoryError,
        thread::{items::ItemsReadError, timeline::TimelineError},
    },
    paging::PageError,
};

impl RpcError {
    /// Tells a client that the thread of its request is at another server.
    pub fn moved(thread: &ThreadId, owner: OwnerNode) -> Self {
        let OwnerNode { name: node, url } = owner;
        let error =
            StoreError::OwnedElsewhere { thread: thread.clone(), node: node.clone(), url: url.clone() };
        let moved = CodicilMovedThread { code: CodicilMovedThread::CODE.to_owned(), node, url };
        Self::invalid_request(error).with_data(json!({ "codicil": moved }))
    }
}

impl From<ThreadError> for RpcError {
    fn from(error: ThreadError) -> Self {
        match error {
            ThreadError::InUse { ref owner, .. } => {
                let data = json!({ "reason": "threadInUse", "pid": owner.pid });
                Self::invalid_request(error).with_data(data).at(ErrorPlace::NotLoaded)
            }
            ThreadError::Store(StoreError::OwnedElsewhere { ref node, ref url, .. }) => {
                let data = json!({ "codicil": { "code": OWNED_BY_NODE, "node": node, "url": url } });
                Self::invalid_request(error).with_data(data).at(ErrorPlace::Elsewhere)
            }
            ThreadError::WorkspaceUnavailable { ref node, .. } => {
                let data = json!({ "codicil": { "code": "workspaceUnavailable", "node": node } });
                Self::invalid_request(error).with_data(data)
            }
            ThreadError::Store(StoreError::Unavailable(_)) => {
                Self::internal(error).with_data(json!({ "codicil": { "code": "storeUnavailable" } }))
            }
            ThreadError::GivenUp(_) | ThreadError::Closed => Self::internal(error)
                .with_data(json!({ "codicil": { "code": THREAD_CLOSED } }))
                .at(ErrorPlace::Elsewhere),
            ThreadError::NotFound(_) | ThreadError::NotLoaded(_) => {
                Self::invalid_request(error).at(ErrorPlace::NotLoaded)
            }
            ThreadError::MalformedId(_)
            | ThreadError::MalformedSessionId(_)
            | ThreadError::NotShared
            | ThreadError::NotStored(_)
            | ThreadError::Archived(_)
            | ThreadError::NotArchived(_)
            | ThreadError::OtherPath { .. }
            | ThreadError::BadRollout { .. }
            | ThreadError::EmptyHistory
            | ThreadError::EphemeralTurns(_)
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
            | ThreadError::Store(_) => Self::internal(error),
        }
    }
}

impl From<TurnInputError> for RpcError {
    fn from(error: TurnInputError) -> Self {
        match error {
            TurnInputError::TurnRunning
            | TurnInputError::EmptyInput
            | TurnInputError::ContextName
            | TurnInputError::TrustedContextName
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
            | ForkError::Ephemeral
            | ForkError::EphemeralTurns => Self::invalid_request(error),
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
            | ThreadListError::Ancestor(_)
            | ThreadListError::SectionSort => Self::invalid_request(error),
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
            | MetadataError::Empty
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
            QueueError::NotLoaded => Self::invalid_request(error).at(ErrorPlace::NotLoaded),
            QueueError::Archived(_)
            | QueueError::Ephemeral(_)
            | QueueError::NoInput
            | QueueError::Full(_)
            | QueueError::NotQueued(_)
            | QueueError::Order
            | QueueError::Cursor(_)
            | QueueError::Empty
            | QueueError::TurnRunning => Self::invalid_request(error),
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
            ReadStateError::ThreadId(_) => Self::invalid_params(error),
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
            SectionError::Unknown(_)
            | SectionError::NotInSection { .. }
            | SectionError::BeforeItself(_)
            | SectionError::BeforeWithoutSection
            | SectionError::Ephemeral(_) => Self::invalid_request(error),
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
            | ProjectError::BeforeItself(_)
            | ProjectError::DuplicateRoot(_)
            | ProjectError::Cursor
            | ProjectError::DirectionWithoutKey
            | ProjectError::NoThread(_) => Self::invalid_params(error),
        }
    }
}

impl From<AttachmentError> for RpcError {
    fn from(error: AttachmentError) -> Self {
        match error {
            AttachmentError::ThreadId(_)
            | AttachmentError::NoThread(_)
            | AttachmentError::Empty(_)
            | AttachmentError::LongKey { .. }
            | AttachmentError::TooLong(_)
            | AttachmentError::TooMany(_)
            | AttachmentError::Cursor => Self::invalid_params(error),
        }
    }
}

impl From<SampleError> for RpcError {
    fn from(error: SampleError) -> Self {
        match error {
            SampleError::NotLoaded => Self::invalid_request(error).at(ErrorPlace::NotLoaded),
            SampleError::Params(_)
            | SampleError::OtherTurn
            | SampleError::NoTurns(_)
            | SampleError::Busy
            | SampleError::Ephemeral => Self::invalid_request(error),
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

impl From<MemoryError> for RpcError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::ThreadCount => Self::invalid_params(error),
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

impl From<TimelineError> for RpcError {
    fn from(error: TimelineError) -> Self {
        match error {
            TimelineError::Archived(_) => Self::invalid_request(error),
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
            SettingsError::Profile(_)
            | SettingsError::NoEnvironment(_)
            | SettingsError::EnvironmentTwice(_)
            | SettingsError::RelativeEnvironment { .. }
            | SettingsError::ProfileAnd(_)
            | SettingsError::EmptyEffort
            | SettingsError::EmptyConfiguredEffort
            | SettingsError::Unsupported(_)
            | SettingsError::Config(_)
            | SettingsError::NotAllowed(_)
            | SettingsError::Provider(_)
            | SettingsError::Servers(_) => Self::invalid_request(error),
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

impl From<PageError> for RpcError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::InvalidCursor(_) | PageError::BeyondEnd { .. } | PageError::InvalidTimelineCursor => {
                Self::invalid_request(error)
            }
            PageError::AnchorWithoutTurn | PageError::UnknownAnchor => Self::invalid_params(error),
        }
    }
}

impl From<TooManyEphemeralThreads> for RpcError {
    fn from(error: TooManyEphemeralThreads) -> Self {
        Self::overloaded_with(error)
    }
}
