//! Threads on disk: append-only JSONL records, and one SQLite index that can be rebuilt from them.
//!
//! Start with [`Store`]. A thread is written through its [`ThreadLog`], one [`Record`] per line, and read as a
//! [`StoredThread`] or, with the model's history, a [`LoadedThread`]. [`Store::list`] queries the index, which follows the
//! files: it includes files that other processes, copies or backups have added, and omits files that are gone.
//!
//! Appended records are never rewritten, except for a torn last line. No other crate opens these files.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod error;
mod record;
mod store;

mod backend;
mod shared;

mod check;
mod facts;
mod fork;
mod import;
mod item_decoder;
mod list;
mod organization;
mod search;
mod thread;
mod thread_check;
mod thread_keys;
mod thread_lines;
mod thread_log;
mod token_usage;
mod transfer;
mod turn_plan;
mod unfinished_turn;

mod home_keys;

mod blobs;
mod file_end;
mod record_batch;
mod record_line;
mod record_lines;
mod record_parts;
mod record_tail;
mod replay;

mod file_scanner;
mod index;
mod search_index;
mod search_text;

#[cfg(fuzzing)]
pub mod fuzzing;
mod summary;

mod clock;
mod layout;
mod loaded_marks;
mod run_lock;
mod work_pool;

pub use {
    backend::{
        AppendOutcome, Backend, BackendFuture, BackendKey, EntryChange, EntryLabel, EntryPage, EntryPosition,
        EntryQuery, Epoch, LineBatch, LogEnd, LostRun, NewEntry, OwnedLog, OwnerHold, OwnerNode, TableCheck,
        TableFinding, TableProblem, ThreadEntry, ThreadHome, ThreadPlacement, TurnActivity, WorkspaceUse,
    },
    blobs::BLOB_MIN,
    check::{CheckFinding, CheckProgress, CheckReport, FindingKind},
    error::{Result, StoreError},
    facts::{
        AttachmentChange, AttachmentKey, FactChange, QueueChange, ReadProgress, RealtimeEntry, SectionPlace,
        ThreadFacts,
    },
    fork::ForkPoint,
    home_keys::{HomeKeyLock, KeyIntent},
    index::BacklogProgress,
    layout::{ThreadLocation, open_regular},
    list::{ListBelow, ListQuery, ListSection, ListSort, ListedThread, ThreadPage},
    loaded_marks::LoadedMark,
    organization::{Organization, PINNED_SECTION, StoredProject, rank_between},
    record::{
        AskedRequest, GoalChange, ItemMark, QuestionKind, Record, RequestAnswer, RunId, StoredSettings,
        ThreadMeta, TurnEndCause, new_thread_id,
    },
    record_tail::{PlacedRecord, RecordTail},
    run_lock::{LiveRun, RunState},
    search::{MessageMatch, SearchPage, SearchQuery},
    search_text::TextMatch,
    store::Store,
    summary::preview,
    thread::{LoadProblem, LoadWarning, LoadWarnings, LoadedThread, StoredThread, StoredTurn, ThreadJson},
    thread_keys::{KeyRecord, StoredKey},
    thread_log::{AdoptedRecord, AppendedRecords, ThreadLog},
    token_usage::UsageRecord,
    transfer::TransferOutcome,
    turn_plan::StoredPlan,
    unfinished_turn::{BegunCall, CallState, RequestOutcome, StoredAnswer, StoredRequest, UnfinishedTurn},
    work_pool::LOCK_TIME,
};
