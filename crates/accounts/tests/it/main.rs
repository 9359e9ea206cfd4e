//! Accounts without a server: several processes in one home, expired tokens, broken files.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod files;
mod shared_home;
mod signing_out;
mod support;
