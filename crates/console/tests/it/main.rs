//! The console over HTTP, with a server in the same process and a scripted model.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod access;
mod browser;
mod events;
mod fixture;
mod long_thread;
mod many_pages;
mod threads;
