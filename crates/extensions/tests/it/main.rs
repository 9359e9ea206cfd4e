//! Skills, plugins and apps as the server uses them, in homes of their own.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod apps;
mod backend;
mod discovery;
mod plugins;
mod support;
mod switches;
mod watching;
