//! The agent layer on top of the client SDK: what products build on.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub use codicil_client as client;

pub mod evaluate;
pub mod pool;
pub mod workspace;

/// The examples of the user documentation compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
struct Documentation;
