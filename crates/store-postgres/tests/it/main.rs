//! Tests of the PostgreSQL store: a model of leases and takeover, and a real PostgreSQL that the tests start themselves.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../../../store/tests/conformance/mod.rs"]
mod conformance;

mod appends;
mod blobs;
mod cluster;
mod cut_proxy;
mod database;
mod diagnosis;
mod lease_model;
mod lists;
mod lost_connections;
mod node_leases;
mod node_processes;
mod request_keys;
mod takeover;
mod threads;
mod tls;
mod violations;

use cluster::conformance_home;
