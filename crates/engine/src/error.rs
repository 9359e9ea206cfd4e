//! The errors of requests about threads, by subject. `server/src/error.rs` maps them to JSON-RPC codes.

use codicil_config::{ConfigError, NotAllowed, ProfileError};
use codicil_model::ModelError;
use codicil_prompts::ReviewTargetError;
use codicil_protocol::{CodexErrorInfo, ThreadId, ThreadReadState, TurnError, TurnId};
use codicil_store::{LiveRun, StoreError};

use crate::{request_key::KeyConflict, thread::TurnKind};

/// Why a request about a thread was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    #[error("invalid thread id: {0}")]
    MalformedId(String),
    /// The same, in the words that the 0.166 generation has for opening and archiving.
    #[error("invalid session id: {0}")]
    MalformedSessionId(String),
    #[error("thread not found: {0}")]
    NotFound(ThreadId),
    #[error("thread not loaded: {0}")]
    NotLoaded(ThreadId),
    /// The server stops, or may not write the thread any more. Clients are about to see that the thread is closed.
    #[error("this server gives up thread {0}")]
    GivenUp(ThreadId),
    #[error("no rollout found for thread id {0}")]
    NotStored(ThreadId),
    #[error("session {0} is archived. Run `codex unarchive {0}` to unarchive it first.")]
    Archived(ThreadId),
    #[error("no archived rollout found for thread id {0}")]
    NotArchived(ThreadId),
    #[error("failed to locate rollout for thread {0}")]
    CannotLocate(ThreadId),
    #[error(
        "cannot resume running thread {id} with mismatched path: requested `{requested}`, active `{active}`"
    )]
    OtherPath { id: ThreadId, requested: String, active: String },
    #[error("failed to load rollout `{path}`: {reason}")]
    BadRollout { path: String, reason: String },
    #[error("history must not be empty")]
    EmptyHistory,
    #[error("project not found: {0}")]
    NoProject(String),
    #[error("thread {0} already has an active writer")]
    OtherWriter(ThreadId),
    #[error("ephemeral threads do not support {0}")]
    EphemeralTurns(&'static str),
    #[error("thread is not persisted and cannot be deleted: {0}")]
    EphemeralDelete(ThreadId),
    #[error("thread {0} does not support realtime conversation")]
    NoRealtime(ThreadId),
    #[error("conversation is not running")]
    NoRealtimeSession,
    #[error("out-of-band elicitation count is already zero")]
    NoElicitation,
    #[error("{0}")]
    DynamicTools(String),
    #[error("{0}")]
    RequiredServers(String),
    #[error("ephemeral thread {0} is not stored: only messages of its running turn can be replayed")]
    NotReplayable(ThreadId),
    /// Another process runs a turn of the thread.
    #[error(
        "thread {thread} is in use: {owner}, runs a turn of it; try again after the turn, or end it there"
    )]
    InUse { thread: ThreadId, owner: LiveRun },
    /// The files of the thread are on another machine, whose server is gone.
    #[error(
        "the workspace of thread {thread} is on {node}: start a server there, or move the thread here with codicil/thread/rehome"
    )]
    WorkspaceUnavailable { thread: ThreadId, node: String },
    #[error(
        "the threads of this server are files in its home; thread/resume with `cwd` changes the directory"
    )]
    NotShared,
    #[error(transparent)]
    TurnInput(#[from] TurnInputError),
    #[error(transparent)]
    ReviewTarget(#[from] ReviewTargetError),
    #[error(transparent)]
    Fork(#[from] ForkError),
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    #[error(transparent)]
    Revert(#[from] RevertError),
    #[error(transparent)]
    Inject(#[from] InjectError),
    #[error(transparent)]
    List(#[from] ThreadListError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error(transparent)]
    Goal(#[from] GoalError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    ReadState(#[from] ReadStateError),
    #[error(transparent)]
    Section(#[from] SectionError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    KeyConflict(#[from] KeyConflict),
    #[error("the thread has too much to do; try again later")]
    Busy,
    /// The thread was unloaded before it took up the request.
    #[error("the thread has been closed; send the request again")]
    Closed,
}

impl ThreadError {
    /// Returns whether another process has extended the conversation since the thread was loaded.
    pub(crate) fn is_overtaken(&self) -> bool {
        matches!(self, Self::Store(StoreError::Overtaken { .. }))
    }

    /// Returns whether another process has written a record that the ones to be stored depend on.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::Conflict { .. }))
    }
}

/// Why a turn does not start, take input or stop.
#[derive(Debug, thiserror::Error)]
pub enum TurnInputError {
    #[error("a turn is in progress")]
    TurnRunning,
    #[error("input must not be empty")]
    EmptyInput,
    #[error("additional context name must match [a-z][a-z0-9_]{{0,63}}")]
    ContextName,
    #[error("additional context name is only supported for untrusted context")]
    TrustedContextName,
    #[error("`toolOutput` cannot be combined with nonempty `input`")]
    InputAndToolOutput,
    #[error("`toolOutput.name` must not be empty")]
    EmptyToolName,
    #[error("{0} cannot be sent to the model of this thread")]
    UnsupportedInput(&'static str),
    #[error("command must not be empty")]
    EmptyCommand,
    #[error("Input exceeds the maximum length of {max} characters.")]
    TooLong { max: usize, actual: usize },
    #[error("no active turn to steer")]
    NothingToSteer,
    #[error("expectedTurnId must not be empty")]
    EmptyExpectedTurn,
    #[error("expected active turn id `{expected}` but found `{found}`")]
    OtherTurn { expected: TurnId, found: TurnId },
    #[error("cannot steer a {} turn", kind.name())]
    NotSteerable { kind: TurnKind, error: Box<TurnError> },
    #[error("no active turn to interrupt")]
    NothingToInterrupt,
    #[error(
        "a `turn/interrupt` with a key needs `turnId`, so that a late repetition cannot stop another turn"
    )]
    InterruptWithoutTurn,
}

/// Why a thread cannot be forked at a turn.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("turn not found: {0}")]
    NoTurn(TurnId),
    #[error("`beforeTurnId` cannot be combined with `lastTurnId`")]
    TwoPoints,
    #[error("lastTurnId '{0}' identifies an in-progress turn")]
    TurnRunning(TurnId),
    #[error("a fork in memory copies everything: it cannot have `lastTurnId` or `beforeTurnId`")]
    Ephemeral,
    #[error("ephemeral paginated thread/fork requires `excludeTurns: true`")]
    EphemeralTurns,
}

/// Why turns cannot be dropped.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    #[error("numTurns must be >= 1")]
    NoTurns,
    #[error("Cannot rollback while a turn is in progress.")]
    TurnRunning,
    #[error("thread rollback requires a persisted rollout path")]
    Ephemeral,
    #[error(transparent)]
    Store(StoreError),
}

impl RollbackError {
    /// Returns the error in the form of the protocol's turn errors.
    pub fn turn_error(&self) -> TurnError {
        TurnError {
            message: self.to_string(),
            codex_error_info: Some(CodexErrorInfo::ThreadRollbackFailed),
            additional_details: None,
            misalignment: None,
        }
    }
}

/// Why a thread cannot go back to an earlier turn.
#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    #[error("turn not found: {0}")]
    NoTurn(TurnId),
    #[error("ephemeral threads do not support thread/revert")]
    Ephemeral,
}

/// Why items cannot be added to a history.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    #[error("items must not be empty")]
    NoItems,
    #[error("items[{index}] is not a valid response item: {reason}")]
    InvalidItem { index: usize, reason: String },
    #[error("remote image URLs are not supported; use an inline data URL instead")]
    RemoteImage,
}

/// Why threads cannot be listed as asked for.
#[derive(Debug, thiserror::Error)]
pub enum ThreadListError {
    #[error("parentThreadId and ancestorThreadId are mutually exclusive")]
    ParentAndAncestor,
    #[error("invalid parent thread id: {0}")]
    Parent(String),
    #[error("invalid ancestor thread id: {0}")]
    Ancestor(String),
    #[error("invalid excluded thread id: {0}")]
    Excluded(String),
    #[error("project not found: {0}")]
    NoProject(String),
    #[error("originator filtering is not supported by the local app-server")]
    Originators,
    #[error("section-position sorting requires a section filter")]
    SectionSort,
}

/// Why the name or repository of a thread cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("thread name must not be empty")]
    EmptyName,
    #[error("gitInfo must include at least one field")]
    EmptyGitInfo,
    #[error("thread metadata update must include at least one field")]
    Empty,
    #[error("gitInfo.{0} must not be empty")]
    EmptyGitField(&'static str),
    #[error("ephemeral thread does not support metadata updates: {0}")]
    Ephemeral(ThreadId),
}

/// Why the goal of a thread cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum GoalError {
    #[error("cannot update goal for thread {0}: no goal exists")]
    NoGoal(ThreadId),
    #[error("goal objective must not be empty")]
    EmptyObjective,
    #[error("goal objective must be at most {0} characters")]
    LongObjective(usize),
    #[error("goal budgets must be positive when provided")]
    Budget,
    #[error("ephemeral thread does not support goals: {0}")]
    Ephemeral(ThreadId),
}

/// Why the queue of a thread cannot be read, changed or started.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("failed to read thread: invalid thread-store request: no rollout found for thread id {0}")]
    NoThread(ThreadId),
    #[error("session {0} is archived. Run `codex unarchive {0}` to unarchive it first.")]
    Archived(ThreadId),
    #[error("ephemeral thread does not support queued submissions: {0}")]
    Ephemeral(ThreadId),
    #[error("only user input can be added to the user-message queue")]
    NoInput,
    #[error("queue cannot contain more than {0} submissions")]
    Full(usize),
    #[error("queued submission not found: {0}")]
    NotQueued(String),
    #[error("queue reorder must include every queued submission exactly once")]
    Order,
    #[error("invalid queue pagination cursor: {0}")]
    Cursor(String),
    #[error("queue is empty")]
    Empty,
    #[error("thread already has an active or pending turn")]
    TurnRunning,
    #[error("resume the thread before starting a queued message")]
    NotLoaded,
}

/// Why the read state of a thread cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ReadStateError {
    /// Holds the whole message.
    #[error("{0}")]
    ThreadId(String),
    #[error("read state changed")]
    Conflict(Box<ThreadReadState>),
    #[error("unknown operation on a read state")]
    Operation,
    #[error("thread read state unavailable")]
    None(ThreadId),
}

/// Why sections cannot be changed, or a thread cannot be moved to one.
#[derive(Debug, thiserror::Error)]
pub enum SectionError {
    #[error("section name must not be empty")]
    EmptyName,
    #[error("thread section not found: {0}")]
    NotFound(String),
    /// Contains what was asked for.
    #[error("the built-in pinned section cannot be {0}")]
    Pinned(&'static str),
    #[error("section {0} does not exist")]
    Unknown(String),
    #[error("before thread {thread} is not in section {section}")]
    NotInSection { thread: ThreadId, section: String },
    #[error("thread {0} cannot be moved before itself")]
    BeforeItself(ThreadId),
    #[error("beforeThreadId requires a non-null sectionId")]
    BeforeWithoutSection,
    #[error("ephemeral thread does not support section moves: {0}")]
    Ephemeral(ThreadId),
}

/// Why projects cannot be listed or changed.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("project not found: {0}")]
    NotFound(String),
    #[error("idempotencyKey must not be empty")]
    EmptyKey,
    #[error("project name must not be empty")]
    EmptyName,
    #[error("before project not found: {0}")]
    NoBefore(String),
    #[error("project {0} cannot be moved before itself")]
    BeforeItself(String),
    #[error("duplicate project root: {0}")]
    DuplicateRoot(String),
    #[error("invalid project cursor: malformed or mismatched sort anchor")]
    Cursor,
    #[error("sortDirection requires sortKey")]
    DirectionWithoutKey,
    #[error("thread not found: {0}")]
    NoThread(ThreadId),
}

/// Why attachments of a thread cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentError {
    /// Holds the whole message.
    #[error("{0}")]
    ThreadId(String),
    #[error("thread not found: {0}")]
    NoThread(ThreadId),
    #[error("{0} must not be empty")]
    Empty(&'static str),
    #[error("{field} must not exceed {max} bytes")]
    LongKey { field: &'static str, max: usize },
    #[error("attachment payload must not exceed {0} bytes")]
    TooLong(usize),
    #[error("a thread has at most {0} attachments")]
    TooMany(usize),
    #[error("invalid pagination cursor")]
    Cursor,
}

/// Why the model was not asked, or did not answer, outside a turn.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    #[error("thread/sample requires expectedTurnId and a prompt of at most {0} bytes")]
    Params(usize),
    #[error("thread/sample requires a loaded source")]
    NotLoaded,
    #[error("sample source turn must be the latest finished turn")]
    OtherTurn,
    #[error("invalid thread-store request: no rollout found for thread id {0}")]
    NoTurns(ThreadId),
    #[error("sample source must be idle")]
    Busy,
    #[error("sample source must be a persistent root thread")]
    Ephemeral,
    #[error("sample canceled")]
    Canceled,
    #[error("{0}")]
    Model(String),
}

/// Why threads cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// Contains the method.
    #[error("{0} requires a non-empty searchTerm")]
    EmptyTerm(&'static str),
}

/// Why the settings of a request cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("failed to load configuration: {0}")]
    Profile(#[from] ProfileError),
    #[error("`permissions` cannot be combined with `{0}`")]
    ProfileAnd(&'static str),
    #[error("unknown turn environment id `{0}`")]
    NoEnvironment(String),
    #[error("duplicate turn environment id `{0}`")]
    EnvironmentTwice(&'static str),
    #[error(
        "invalid cwd for environment `{environment}`: path `{cwd}` does not use absolute POSIX or Windows path syntax"
    )]
    RelativeEnvironment { environment: &'static str, cwd: String },
    /// A member that this server cannot obey.
    #[error("`{0}` is not supported by this server")]
    Unsupported(&'static str),
    #[error("Invalid request: reasoning_effort must not be empty")]
    EmptyEffort,
    #[error(
        "failed to load configuration: reasoning_effort must not be empty\nin `model_reasoning_effort`\n"
    )]
    EmptyConfiguredEffort,
    #[error("failed to load configuration: {0}")]
    Config(#[from] ConfigError),
    /// The administrator's requirements forbid what the request asks for.
    #[error("failed to load configuration: {0}")]
    NotAllowed(#[from] NotAllowed),
    #[error("failed to load configuration: {0}")]
    Provider(ModelError),
    #[error("failed to load configuration: {0}")]
    Servers(String),
}

/// Why a server request cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("request not found: {0}")]
    NotFound(String),
    /// Contains what was expected.
    #[error("{0}; the request is still open")]
    WrongShape(String),
    #[error("give either `result` or `error`")]
    NoAnswer,
    #[error("the answer could not be stored, so the turn ends; the server's log has the details")]
    NotStored,
}
