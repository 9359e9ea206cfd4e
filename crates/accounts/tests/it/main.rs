//! Accounts by themselves: several processes in one home, tokens that expire, files that are broken.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod files;
mod shared_home;
mod signing_out;
mod support;
