//! The public API of the model crate against a provider on loopback.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anthropic;
mod chat;
mod credentials;
mod deadlines;
mod errors;
mod response_limits;
mod responses;
mod retries;
mod scripted;
mod served_models;
mod server;
mod support;
