//! Feedback reports, which need no thread.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod feedback;
