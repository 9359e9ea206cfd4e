//! Loaded threads: the actor that owns a thread, the turns it runs, and the tools and context of the model.
//!
//! Start with [`Threads`], the registry of loaded threads. A thread is a task with a mailbox; [`ThreadHandle`] is its
//! handle. A turn is a second task that streams the model's responses, runs tools, and reports to its thread on one
//! channel (`turn_channel.rs`). Only the thread writes the store and notifies its [`ThreadClients`]. This crate does not know
//! connections.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod clock;
mod confine;
mod durable_requests;
mod engine_context;
mod error;
mod file_access;
mod git;
mod goals;
mod hooks;
mod ids;
mod model_context;
mod model_support;
mod notify_program;
mod permissions;
mod profiles;
mod queue;
mod realtime;
mod request_key;
mod samples;
mod settings;
mod settings_forms;
mod subagent;
mod thread;
mod thread_clients;
mod threads;
mod tools;
mod turn;
mod turn_channel;

pub use confine::{ConfineError, ConfinedProcess, ProxiedNetwork, confine, confinement};
pub use engine_context::{EngineContext, provider_config};
pub use error::{
    AttachmentError, ForkError, GoalError, InjectError, MetadataError, ProjectError, QueueError,
    ReadStateError, RequestError, RevertError, RollbackError, SampleError, SearchError, SectionError,
    SettingsError, ThreadError, ThreadListError, TurnInputError,
};
pub use hooks::declared_hooks;
pub use model_support::StartNotice;
pub use profiles::{ThreadProfile, profile_policy};
pub use realtime::{InputAccepted, RealtimeForm, ThreadVoice, realtime_voices};
pub use request_key::{KeyConflict, MAX_KEY_BYTES, RequestKey};
pub use settings::{SettingsOverrides, TurnSettings};
pub use thread::{
    AnnounceGuard, AnnouncedReply, AnswerOutcome, ElicitationChange, MAX_RECENT_MESSAGES, MAX_REPLAY_BYTES,
    MAX_REPLAY_MESSAGES, RevertedThread, ThreadHandle, ThreadSubscription, TurnKind, TurnOrigin,
    WaitingRequest, check_review_target, parse_injected_items,
};
pub use thread_clients::{ClientAnswer, ClientReply, OpenQuestion, QuestionGuard, ThreadClients};
pub use threads::{
    IncludeTurns, ListedForks, OpenedThread, RequestPage, ThreadCounts, ThreadRead, ThreadRequest, Threads,
};
pub use tools::{ClientCallError, CredentialVariables, ThreadMcpServers, environment_policy};
