//! Patches from text to files: what a model writes, what it is told, and what is on the disk afterwards.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod applying;
mod failures;
mod limits;
mod parsing;
mod planning;
mod properties;
mod protocol;
mod races;
mod support;
mod turn_diffs;
