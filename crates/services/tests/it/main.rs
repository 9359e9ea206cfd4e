//! What needs no thread, on real directories.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod external_agents;
mod feedback;
