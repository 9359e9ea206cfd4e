//! The crate against real servers: child processes and loopback HTTP.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod site;
mod support;
mod web;

mod calls;
mod http;
mod oauth;
mod questions;
mod starting;
mod status;
mod tools;
