//! Drives the scripted model as a client does: over HTTP, with all it sends and all it closes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod client;

mod anthropic;
mod chat;
mod flow;
mod follow;
mod recording;
mod responses;
mod script;
mod throughput;
