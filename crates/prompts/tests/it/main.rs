//! What the model sees, as a caller of this crate puts it together.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod show;

mod input;
mod notices;
mod permissions;
mod texts;
mod turns;
