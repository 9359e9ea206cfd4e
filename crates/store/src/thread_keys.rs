//! Request keys in a thread's file.
//!
//! A client can give a request a key, so that a repetition has no second effect. The key, the digest of the params and the
//! result stand in one extra record, in the same append as the effect of the request: a process that is killed leaves both
//! or neither. The record holds hashes of key and params, never their text. Nothing of this is read until the first request
//! with a key arrives.

use codicil_protocol::ThreadId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    clock,
    error::Result,
    record::{KEY, Record},
    record_line::RecordKind,
    record_lines::RecordLines,
    replay::{HistoryWanted, Replay, decode, extra_kind},
    store::{Store, StoreInner},
    thread::StoredTurn,
    work_pool::WorkLane,
};

/// A request that a thread has carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// The hash of the client's key.
    pub key: String,
    /// The hash of method and params.
    pub digest: String,
    /// The result, in the form that the engine needs to answer again.
    pub result: Box<RawValue>,
}

/// A key record and its place.
#[derive(Clone, Debug)]
pub struct StoredKey {
    pub record: KeyRecord,
    pub ordinal: u64,
    /// Unix seconds.
    pub at: i64,
}

impl Record {
    /// Stores the key of a request beside its effect.
    pub fn key(key: &KeyRecord) -> serde_json::Result<Self> {
        Ok(Self::Extra { kind: KEY.to_owned(), data: serde_json::to_value(key)? })
    }

    /// Returns the key in this record, if it is a key record.
    pub fn as_key(&self) -> Option<KeyRecord> {
        match self {
            Self::Extra { kind, data } if kind == KEY => KeyRecord::deserialize(data).ok(),
            _ => None,
        }
    }
}

impl Store {
    /// Returns the keys of a thread, archived or not, oldest first.
    pub async fn keys(&self, id: &ThreadId) -> Result<Vec<StoredKey>> {
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.keys(&id)).await
    }

    /// Returns the turns of a thread as they were after the record with this ordinal.
    pub async fn turns_after(&self, id: &ThreadId, ordinal: u64) -> Result<Vec<StoredTurn>> {
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.turns_after(&id, ordinal)).await
    }
}

impl StoreInner {
    fn keys(&self, id: &ThreadId) -> Result<Vec<StoredKey>> {
        let (_, bytes) = self.bytes(id)?;
        let is_extra = |kind| kind == RecordKind::Extra;
        let lines = RecordLines::of(&bytes).with_blobs(&self.layout, is_extra);
        let mut found = Vec::new();
        for (_, head) in lines.heads() {
            if !is_extra(head.kind) || extra_kind(head).as_deref() != Some(KEY) {
                continue;
            }
            let Some(KeyLine { data }) = decode(head) else { continue };
            let at = clock::parse_seconds(head.timestamp).unwrap_or(0);
            found.push(StoredKey { record: data, ordinal: head.ordinal, at });
        }
        Ok(found)
    }

    fn turns_after(&self, id: &ThreadId, ordinal: u64) -> Result<Vec<StoredTurn>> {
        let (_, bytes) = self.bytes(id)?;
        let without_history = |kind| !matches!(kind, RecordKind::Context | RecordKind::Compaction);
        let lines = RecordLines::of(&bytes).up_to(ordinal).with_blobs(&self.layout, without_history);
        Ok(Replay::run(&lines, HistoryWanted::Turns).turns)
    }
}

#[derive(Deserialize)]
struct KeyLine {
    data: KeyRecord,
}
