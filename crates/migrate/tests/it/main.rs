//! Integration tests on real directories. `codicil import` is tested with the binary, in `crates/cli`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod external_agents;
mod rollouts;
