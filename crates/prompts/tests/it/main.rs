//! The messages for models, assembled like in the engine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod show;

mod event_messages;
mod input;
mod permissions;
mod texts;
mod turns;
