//! File operations, watches and searches on real directories.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod copying;
mod properties;
mod reading;
mod searching;
mod sessions;
mod support;
mod watching;
mod writing;
