//! Commands as clients and users see them: summaries, rules files, and questions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod actions;
mod answers;
mod commands;
mod known_safe;
mod networks;
mod patches;
mod permissions;
mod properties;
mod rules;
mod shell;
mod support;
