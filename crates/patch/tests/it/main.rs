//! Patches from text to files: the result for the model, and the files on disk.
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
