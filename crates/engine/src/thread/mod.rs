//! A loaded thread: a task that owns its state ([`ThreadActor`]), and the handle that others hold of it
//! ([`ThreadHandle`]). `command.rs` has what can be asked of it; `actor.rs` lists the files of its methods.

mod active_turn;
mod actor;
mod announce;
mod apps;
mod command;
mod continuation;
mod finish;
mod goal;
mod handle;
mod history;
mod input;
mod join;
mod keyed;
mod launch;
mod model_facts;
mod notifier;
mod open_commands;
mod open_questions;
mod other_writers;
mod questions;
mod queue;
mod read_state;
mod recent_frames;
mod record_messages;
mod refresh;
mod request;
mod review;
mod settings_change;
mod start;
mod state;
mod steer;
mod storing;
mod subscribe;
mod turn_count;
mod turn_messages;

pub use {
    active_turn::TurnKind,
    command::{AnnounceGuard, AnnouncedReply, ElicitationChange, RevertedThread, ThreadSnapshot, TurnOrigin},
    handle::ThreadHandle,
    history::parse_injected_items,
    questions::{AnswerOutcome, WaitingRequest},
    recent_frames::MAX_RECENT_MESSAGES,
    review::check_review_target,
    subscribe::{MAX_REPLAY_BYTES, MAX_REPLAY_MESSAGES, ThreadSubscription},
};

pub(crate) use {
    actor::ThreadActor,
    command::{
        CommandReply, JoinRequest, JoinedThread, PostedCommand, ThreadCommand, ThreadSetup, UnloadedTurn,
    },
    continuation::ContinuedTurn,
    handle::{ShownState, ThreadInbox},
    history::InheritedHistory,
    notifier::ThreadNotifier,
    read_state::changed as changed_read_state,
    state::ThreadState,
};
