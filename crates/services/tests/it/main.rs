//! The services, on real directories.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod external_agents;
