//! `evaluate` through its public API.
