//! What callers of the store can see, on real files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

mod timings;
