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
    record_parts::{decode, extra_kind},
    replay::{HistoryWanted, Replay},
    store::Store,
    thread::StoredTurn,
    thread_lines::{ThreadLines, without_history},
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
        self.with_lines(id, is_extra, |lines| Ok(lines.keys())).await
    }

    /// Returns the turns of a thread as they were after the record with this ordinal.
    pub async fn turns_after(&self, id: &ThreadId, ordinal: u64) -> Result<Vec<StoredTurn>> {
        self.with_lines(id, without_history, move |lines| Ok(lines.turns_after(ordinal))).await
    }
}

fn is_extra(kind: RecordKind) -> bool {
    kind == RecordKind::Extra
}

impl ThreadLines {
    fn keys(&self) -> Vec<StoredKey> {
        let lines = self.records().with_blobs(&self.blobs, is_extra);
        let mut found = Vec::new();
        for (_, head) in lines.heads() {
            if !is_extra(head.kind) || extra_kind(head).as_deref() != Some(KEY) {
                continue;
            }
            let Some(KeyLine { data }) = decode(head) else { continue };
            let at = clock::parse_seconds(head.timestamp).unwrap_or(0);
            found.push(StoredKey { record: data, ordinal: head.ordinal, at });
        }
        found
    }

    fn turns_after(&self, ordinal: u64) -> Vec<StoredTurn> {
        let lines = self.records().up_to(ordinal).with_blobs(&self.blobs, without_history);
        Replay::run(&lines, HistoryWanted::Turns).turns
    }
}

#[derive(Deserialize)]
struct KeyLine {
    data: KeyRecord,
}
