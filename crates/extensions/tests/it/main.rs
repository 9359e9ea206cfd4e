//! Skills, plugins and apps through the API that the server uses, each test with its own homes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod apps;
mod backend;
mod discovery;
mod enablement;
mod plugins;
mod support;
mod watching;
