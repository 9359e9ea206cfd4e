//! Tests of the store on real files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../conformance/mod.rs"]
mod conformance;
mod support;

/// Opens a store for the conformance suite.
async fn conformance_home() -> Option<support::Home> {
    Some(support::Home::new())
}

mod archive;
mod blobs;
mod damage;
mod deleted;
mod facts;
mod failures;
mod fork;
mod golden;
mod history;
mod list;
mod locks;
mod many;
mod outside;
mod processes;
mod records;
mod timings;
mod unfinished;
mod writers;
