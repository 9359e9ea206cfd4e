//! `workspace` through its public API.
