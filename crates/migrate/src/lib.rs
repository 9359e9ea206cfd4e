//! Migration from other agents.
//!
//! - [`codex`] imports the threads of a codex home (`codicil import`).
//! - [`external_agents`] copies instructions, settings, MCP servers and skills from the configuration of
//!   another coding agent (`externalAgentConfig/*`).
//!
//! Both only read the source, never overwrite what exists in the destination, and can be repeated. Command
//! lines, progress bars and JSON-RPC are left to the callers.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod codex;
pub mod external_agents;
