//! Threads on disk: append-only JSONL records, and one SQLite index that can be rebuilt from them.
//!
//! Start with [`Store`]. A thread is written through its [`ThreadLog`], one [`Record`] a line, and comes
//! back as a [`StoredThread`] or, with the model's history, a [`LoadedThread`]. [`Store::list`] answers
//! from the index, which follows the files: those that other processes, copies or backups brought are
//! found, those that are gone are left out.
//!
//! What was appended is never rewritten, except for a torn last line. Nothing else opens these files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod record;
mod store;

mod decode;
mod delete;
mod fork;
mod import;
mod list;
mod log;
mod thread;

mod blobs;
mod line;
mod lines;
mod replay;
mod tail;

mod index;
mod scan;
mod summary;

mod clock;
mod layout;
mod pool;

pub use {
    blobs::BLOB_MIN,
    error::{Result, StoreError},
    fork::ForkPoint,
    index::BacklogProgress,
    layout::{ThreadLocation, open_regular},
    list::{ListQuery, ListSort, ThreadPage},
    log::ThreadLog,
    pool::LOCK_TIME,
    record::{Record, StoredSettings, ThreadMeta, new_thread_id},
    store::Store,
    summary::preview,
    thread::{LoadProblem, LoadWarning, LoadWarnings, LoadedThread, StoredThread, StoredTurn, ThreadJson},
};
