//! Programs of the user's that run at fixed points of a turn and may have a say in it.
//!
//! | part | where |
//! |---|---|
//! | which hooks there are | `declared.rs` |
//! | telling clients of them | `list.rs` |
//! | what a hook is told | `event.rs` |
//! | running one, and telling it | `run.rs` |
//! | what it said, and what that means | `verdict.rs` |
//!
//! A hook that breaks has no effect on the turn: it is told as failed, and the turn goes on.

mod declared;
mod event;
mod list;
mod run;
mod verdict;

pub use list::declared_hooks;

pub(crate) use {
    declared::TurnHooks,
    event::{HookContext, HookEvent},
    verdict::HookEffect,
};
