//! What the server does for clients without a thread: [`external_agents`] imports the configuration of another
//! agent.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod external_agents;
