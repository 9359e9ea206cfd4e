//! Threads that live: the actor that owns one, the turns it runs, what the model is told and shown.
//!
//! Start with [`Threads`], which holds every loaded thread. A thread is a task with a mailbox
//! ([`ThreadHandle`] is what others hold); a turn is a second task beside it that streams the model and
//! reports [steps](step) to its thread. The thread alone writes the store and speaks to its
//! [`ThreadClients`]. This crate knows nothing of connections.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod abilities;
mod audience;
mod clock;
mod confine;
mod error;
mod file_access;
mod git;
mod goals;
mod hooks;
mod ids;
mod kin;
mod permissions;
mod profiles;
mod realtime;
mod settings;
mod step;
mod surroundings;
mod thread;
mod threads;
mod tools;
mod turn;
mod world;

pub use audience::{ClientReply, OpenQuestion, QuestionGuard, ThreadClients};
pub use confine::{ConfineError, ConfinedProcess, ProxiedNetwork, confine, confinement};
pub use error::ThreadError;
pub use hooks::declared_hooks;
pub use profiles::BuiltinProfile;
pub use realtime::{InputAccepted, ThreadVoice};
pub use settings::{SettingsOverrides, TurnSettings};
pub use thread::{
    AnnounceGuard, AnnouncedReply, ElicitationChange, ThreadHandle, TurnKind, TurnOrigin, check_review_target,
};
pub use threads::{IncludeTurns, OpenedThread, ThreadRead, Threads};
pub use tools::{CredentialVariables, environment_policy};
pub use world::{EngineContext, provider_config};
