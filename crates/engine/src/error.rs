//! What can go wrong with a thread, in words of the thread.

use codicil_config::{ConfigError, NotAllowed};
use codicil_model::ModelError;
use codicil_prompts::ReviewTargetError;
use codicil_protocol::{ThreadId, TurnError, TurnId};
use codicil_store::StoreError;

use crate::thread::TurnKind;

/// Why a request about a thread was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    #[error("invalid thread id: {0}")]
    MalformedId(String),
    #[error("thread not found: {0}")]
    NotFound(ThreadId),
    #[error("thread not loaded: {0}")]
    NotLoaded(ThreadId),
    #[error("no rollout found for thread id {0}")]
    NotStored(ThreadId),
    #[error("no archived rollout found for thread id {0}")]
    NotArchived(ThreadId),
    #[error("failed to locate rollout for thread {0}")]
    CannotLocate(ThreadId),
    #[error(
        "cannot resume running thread {id} with mismatched path: requested `{requested}`, active `{active}`"
    )]
    OtherPath { id: ThreadId, requested: String, active: String },
    #[error("history must not be empty")]
    EmptyHistory,
    #[error("ephemeral threads do not support includeTurns")]
    EphemeralTurns,
    #[error("thread name must not be empty")]
    EmptyName,
    #[error("gitInfo must include at least one field")]
    EmptyGitInfo,
    #[error("gitInfo.{0} must not be empty")]
    EmptyGitField(&'static str),
    #[error("numTurns must be >= 1")]
    NoTurnsToDrop,
    #[error("Cannot rollback while a turn is in progress.")]
    RollbackDuringTurn,
    #[error("thread rollback requires a persisted rollout path")]
    EphemeralRollback,
    #[error("ephemeral thread does not support metadata updates: {0}")]
    EphemeralMetadata(ThreadId),
    #[error("failed to load rollout `{path}`: {reason}")]
    BadRollout { path: String, reason: String },
    #[error("a turn is in progress")]
    TurnRunning,
    #[error("input must not be empty")]
    EmptyInput,
    #[error("command must not be empty")]
    EmptyCommand,
    #[error("Input exceeds the maximum length of {max} characters.")]
    InputTooLong { max: usize, actual: usize },
    #[error("thread {0} does not support realtime conversation")]
    NoRealtime(ThreadId),
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
    #[error("out-of-band elicitation count is already zero")]
    NoElicitation,
    #[error("{0}")]
    DynamicTools(String),
    #[error("turn not found: {0}")]
    NoTurn(TurnId),
    #[error("`beforeTurnId` cannot be combined with `lastTurnId`")]
    TwoForkPoints,
    #[error("lastTurnId '{0}' identifies an in-progress turn")]
    ForkPointRunning(TurnId),
    #[error("a fork in memory copies everything: it cannot have `lastTurnId` or `beforeTurnId`")]
    EphemeralForkPoint,
    #[error("no such permission profile: {0}")]
    NoProfile(String),
    #[error("`permissions` cannot be combined with `{0}`")]
    ProfileAnd(&'static str),
    #[error("cannot update goal for thread {0}: no goal exists")]
    NoGoal(ThreadId),
    #[error("goal objective must not be empty")]
    EmptyObjective,
    #[error("goal objective must be at most {0} characters")]
    LongObjective(usize),
    #[error("goal budgets must be positive when provided")]
    GoalBudget,
    #[error("ephemeral thread does not support goals: {0}")]
    EphemeralGoal(ThreadId),
    #[error("thread is not persisted and cannot be deleted: {0}")]
    EphemeralDelete(ThreadId),
    #[error(transparent)]
    ReviewTarget(#[from] ReviewTargetError),
    #[error("failed to load configuration: {0}")]
    Config(#[from] ConfigError),
    /// An administrator forbids what the request asked for.
    #[error("failed to load configuration: {0}")]
    NotAllowed(#[from] NotAllowed),
    #[error("failed to load configuration: {0}")]
    Provider(ModelError),
    #[error("failed to load configuration: {0}")]
    Servers(String),
    #[error("{0}")]
    RequiredServers(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the thread has too much to do; try again later")]
    Busy,
    #[error("the thread has ended")]
    Closed,
}
