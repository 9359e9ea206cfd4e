//! What the server does for clients without a thread.
//!
//! [`external_agents`] moves a person in from another agent; [`feedback`] takes their reports.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod external_agents;
pub mod feedback;
