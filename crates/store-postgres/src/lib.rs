//! Threads in PostgreSQL, shared by several nodes.
//!
//! Start with [`PostgresBackend`], which a server uses through the trait `Backend` of the store, and [`PostgresStore`]: the
//! lines of threads, blobs and lists. A node registers with [`NodeLease::register`] and takes trees of threads with
//! [`PostgresStore::claim`]. Lines, names and summaries are opaque here; records, replay and forks belong to the store.
//!
//! What holds, whatever happens to nodes, connections and the database: each (thread, ordinal) is written once, the epochs
//! along a log never decrease, and an append that was reported as stored is in the log. [`PostgresStore::find_violations`]
//! verifies it with SQL. The protocol of leases and takeover is modelled in `tests/it/lease_model`.
//!
//! Every statement is one transaction and safe to repeat, so a pooler in transaction mode can stand in between. Statements
//! are not prepared for the same reason.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod store;

mod backend;
mod cluster_node;
mod held_trees;

mod append_queue;
mod append_statement;
mod blobs;
mod documents;
mod message_index;
mod request_keys;
mod thread_lines;
mod thread_list;

mod lease;
mod node_lease;

mod check;
mod diagnosis;
mod migrations;

mod address;
mod boot_clock;
mod connection;

pub use {
    address::DatabaseAddress,
    append_statement::{LineBatch, RowChange, ThreadState},
    backend::PostgresBackend,
    blobs::BlobHash,
    check::{ViolatedRule, Violation},
    cluster_node::{BackendSettings, SharedPlaces},
    diagnosis::DatabaseDiagnosis,
    error::{PostgresError, Result},
    lease::{Claim, Epoch, NodeAddress, TreeLease, TreeThread},
    node_lease::{NodeIdentity, NodeLease, NodeSettings, RegisteredNode},
    request_keys::KeyLock,
    store::PostgresStore,
    thread_lines::{LinePage, NewThread},
    thread_list::{ThreadLabel, ThreadPage, ThreadQuery, ThreadRow, ThreadSort, ThreadsBelow},
};
