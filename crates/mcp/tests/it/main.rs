//! The crate against real servers: child processes and loopback HTTP.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

mod calls;
mod questions;
mod starting;
mod tools;
