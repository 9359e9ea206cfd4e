//! Tests of the scripted model server over HTTP, as a client sees it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod anthropic;
mod chat;
mod client;

mod flow;
mod recording;
mod responses;
mod script;
mod script_file;
mod throughput;
