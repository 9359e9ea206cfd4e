//! Runs real commands through the public API.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

mod exits;
mod head_tail;
mod killed;
mod owned;
mod pipes;
mod prepare;
mod sessions;
mod shell;
mod terminal;
mod throughput;
