//! The agent layer on top of the client SDK.
//!
//! | module | purpose |
//! |---|---|
//! | [`evaluate`] | runs a prompt and returns the answer as text or as a Rust value |
//! | [`workspace`] | temporary directories with copies of host files, for agents to work in |
//! | [`pool`] | many agents on few servers |
//! | [`mcp_servers`] | MCP servers for agents of both kinds |
//!
//! The crate uses only the public API of [`codicil_client`], so it works with any server of the protocol.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub use codicil_client as client;

pub mod evaluate;
pub mod mcp_servers;
pub mod pool;
pub mod workspace;

/// Compiles the examples of the user documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
struct Documentation;
