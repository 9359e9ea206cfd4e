//! The proxy as programs see it: what it forwards, what it refuses, and that it ends.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod requests;
mod support;
mod tunnels;
