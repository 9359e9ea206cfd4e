//! Threads that live: the actor that owns one, the turns it runs, what the model is told and shown.
//!
//! Start with [`Threads`], which holds every loaded thread. A thread is a task with a mailbox
//! ([`ThreadHandle`] is what others hold); a turn is a second task beside it that streams the model and
//! reports [steps](step) to its thread. The thread alone writes the store and speaks to its
//! [`Audience`]. This crate knows nothing of connections.

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

pub use audience::{Answer, Audience, Question, Withdraw};
pub use confine::{ConfineError, ConfinedProcess, ProxiedNetwork, confine, confinement};
pub use error::ThreadError;
pub use hooks::declared_hooks;
pub use profiles::Profile;
pub use realtime::{Taken, Voice};
pub use settings::{Overrides, Settings};
pub use thread::{Announce, Announced, Elicitation, Origin, ThreadHandle, TurnKind, check_review_target};
pub use threads::{Opened, ThreadRead, Threads, Turns};
pub use tools::environment_policy;
pub use world::{World, provider_config};
