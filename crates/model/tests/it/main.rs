//! What a caller of the model crate can see, against a provider on loopback.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anthropic;
mod ceilings;
mod chat;
mod deadlines;
mod errors;
mod keys;
mod responses;
mod retries;
mod scripted;
mod server;
mod support;
