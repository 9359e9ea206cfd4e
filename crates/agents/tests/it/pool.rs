//! `pool` through its public API.
