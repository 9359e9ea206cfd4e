//! Keys of requests: a repetition of a request with the same key has no second effect and gets the first result.
//!
//! A request to a thread stores its key with its effect, in one append (`ThreadActor::key_records`), and a
//! repetition is answered from the stored result before the command is looked at (`thread/keyed.rs`). Requests that create,
//! move or delete threads have no such append; they lock a file in the home (`codicil_store::HomeKeyLock`).

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use codicil_store::{KeyRecord, Record, StoreError, StoredKey};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::to_raw_value};
use sha2::{Digest, Sha256};

use crate::error::ThreadError;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// Keys that a thread remembers, however old they are.
const KEPT_COUNT: usize = 1_000;
/// Keys that a thread remembers, however many they are, in seconds.
const KEPT_SECONDS: i64 = 24 * 60 * 60;
/// Keys that a loaded thread holds at most.
const MAX_KEYS: usize = 65_536;

/// The key of a request and the digest of what it asks. Clones are the same request.
#[derive(Clone, Debug)]
pub struct RequestKey(Arc<KeyedRequest>);

#[derive(Debug)]
struct KeyedRequest {
    key: String,
    /// The hash of the client's id of the message, which is a key beside the explicit one.
    message_key: Option<String>,
    digest: String,
    is_replayed: AtomicBool,
}

/// The key was used before, for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key was used before for a request with another method or other params; send this request with a new key"
)]
pub struct KeyConflict;

impl RequestKey {
    pub fn new(key: &str, method: &str, params: &Value) -> Self {
        Self::with_message(key, None, method, params)
    }

    /// Creates the key of a request whose message has an id of its own, which is a key too.
    pub fn with_message(key: &str, message_key: Option<&str>, method: &str, params: &Value) -> Self {
        // Members of an object have one order, so that params in another order are the same request.
        let digest = hash([method.as_bytes(), sorted(params).to_string().as_bytes()]);
        let key = hash([key.as_bytes()]);
        let message_key = message_key.map(|key| hash([key.as_bytes()]));
        Self(Arc::new(KeyedRequest { key, message_key, digest, is_replayed: AtomicBool::new(false) }))
    }

    /// Returns the hash of the key.
    pub fn hash(&self) -> &str {
        &self.0.key
    }

    /// Returns the hashes of all keys of the request. The explicit one is the first.
    fn hashes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.0.key).chain(&self.0.message_key).map(String::as_str)
    }

    /// Returns the hash of method and params.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Returns whether the answer is that of an earlier request.
    pub fn is_replayed(&self) -> bool {
        self.0.is_replayed.load(Ordering::Relaxed)
    }

    pub fn set_replayed(&self) {
        self.0.is_replayed.store(true, Ordering::Relaxed);
    }

    /// Checks that a known key was used for the same request.
    pub fn check(&self, digest: &str) -> Result<(), KeyConflict> {
        if digest == self.0.digest { Ok(()) } else { Err(KeyConflict) }
    }

    /// Returns the records that stand beside the effect of the request, one for each of its keys.
    pub(crate) fn records(&self, result: &impl Serialize) -> Result<Vec<Record>, ThreadError> {
        let result = to_raw_value(result).map_err(StoreError::from)?;
        let record = |key: &str| {
            let (digest, result) = (self.0.digest.clone(), result.clone());
            Record::key(&KeyRecord { key: key.to_owned(), digest, result })
        };
        Ok(self.hashes().map(record).collect::<Result<_, _>>().map_err(StoreError::from)?)
    }

    /// Returns the result of the first request, and marks the answer as replayed.
    pub(crate) fn replay<T: DeserializeOwned>(&self, known: &StoredKey) -> Result<T, ThreadError> {
        self.check(&known.record.digest)?;
        self.set_replayed();
        Ok(serde_json::from_str(known.record.result.get()).map_err(StoreError::from)?)
    }
}

/// The keys that a loaded thread has seen. Results are read from the thread's file when they are needed; an ephemeral
/// thread has no file and keeps them here.
#[derive(Debug, Default)]
pub(crate) struct KeyTable {
    seen: HashMap<String, SeenKey>,
    /// The keys in the order in which they were used.
    order: VecDeque<String>,
}

#[derive(Debug)]
struct SeenKey {
    at: i64,
    /// The key with its result, for a thread without a file.
    kept: Option<StoredKey>,
}

impl KeyTable {
    pub fn read(stored: Vec<StoredKey>) -> Self {
        let mut table = Self::default();
        for key in stored {
            table.add(key.record.key, SeenKey { at: key.at, kept: None });
        }
        table
    }

    pub fn contains(&self, key: &RequestKey) -> bool {
        key.hashes().any(|hash| self.seen.contains_key(hash))
    }

    /// Returns a key that has no file to be read from.
    pub fn kept(&self, key: &RequestKey) -> Option<StoredKey> {
        key.hashes().find_map(|hash| self.seen.get(hash)?.kept.clone())
    }

    /// Adds a key that was used now.
    pub fn insert(&mut self, record: KeyRecord, at: i64, storage: KeyStorage) {
        let key = record.key.clone();
        let kept = match storage {
            KeyStorage::File => None,
            KeyStorage::Memory => Some(StoredKey { record, ordinal: 0, at }),
        };
        self.add(key, SeenKey { at, kept });
    }

    fn add(&mut self, key: String, seen: SeenKey) {
        let now = seen.at;
        if self.seen.insert(key.clone(), seen).is_none() {
            self.order.push_back(key);
        }
        while let Some(oldest) = self.order.front().filter(|_| self.order.len() > KEPT_COUNT) {
            let is_recent = self.seen.get(oldest).is_some_and(|seen| now - seen.at < KEPT_SECONDS);
            if is_recent && self.order.len() <= MAX_KEYS {
                return;
            }
            if let Some(oldest) = self.order.pop_front() {
                self.seen.remove(&oldest);
            }
        }
    }
}

/// Returns the newest use of a key.
pub(crate) fn find_key<'k>(stored: &'k [StoredKey], key: &RequestKey) -> Option<&'k StoredKey> {
    key.hashes().find_map(|hash| stored.iter().rfind(|stored| stored.record.key == hash))
}

/// Where the result of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStorage {
    File,
    Memory,
}

/// Returns half of a SHA-256 hash, in hexadecimal. The parts are separated by their lengths.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a value with the members of its objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            Value::Object(members.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::RawValue};

    use super::*;

    fn used(table: &mut KeyTable, name: &str, at: i64) -> RequestKey {
        let key = RequestKey::new(name, "turn/start", &json!({}));
        let result = RawValue::from_string("null".to_owned()).unwrap();
        let record = KeyRecord { key: key.hash().to_owned(), digest: key.digest().to_owned(), result };
        table.insert(record, at, KeyStorage::File);
        key
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let digest = |text: &str| {
            RequestKey::new("k", "turn/start", &serde_json::from_str(text).unwrap()).digest().to_owned()
        };
        assert_eq!(digest(r#"{"a":1,"b":{"c":2,"d":3}}"#), digest(r#"{"b":{"d":3,"c":2},"a":1}"#));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":2}"#));
        assert_ne!(digest(r#"{"a":[1,2]}"#), digest(r#"{"a":[2,1]}"#));
        let other = RequestKey::new("k", "turn/steer", &json!({ "a": 1 }));
        assert_ne!(other.digest(), digest(r#"{"a":1}"#), "the method is part of the request");
    }

    #[test]
    fn a_request_is_found_by_each_of_its_keys() {
        let with = |key: &str, message| RequestKey::with_message(key, message, "turn/start", &json!({}));
        let records = with("k", Some("m")).records(&1).unwrap();
        let stored = records.iter().filter_map(Record::as_key);
        let stored: Vec<_> = stored.map(|record| StoredKey { record, ordinal: 0, at: 0 }).collect();
        assert_eq!(stored.len(), 2);
        for again in [with("k", None), with("m", None), with("other", Some("m")), with("k", Some("other"))] {
            assert!(find_key(&stored, &again).is_some());
        }
        assert!(find_key(&stored, &with("other", Some("x"))).is_none());
    }

    #[test]
    fn a_thread_keeps_the_last_keys_and_those_of_a_day() {
        let mut table = KeyTable::default();
        let old = used(&mut table, "old", 0);
        for n in 0..KEPT_COUNT - 1 {
            used(&mut table, &format!("k{n}"), KEPT_SECONDS);
        }
        assert!(table.contains(&old), "one of the last thousand");
        let next = used(&mut table, "next", KEPT_SECONDS);
        assert!(!table.contains(&old) && table.contains(&next));
        for n in 0..KEPT_COUNT {
            used(&mut table, &format!("m{n}"), KEPT_SECONDS + 1);
        }
        assert!(table.contains(&next), "less than a day old");
    }

    #[test]
    fn the_memory_of_a_thread_is_bounded() {
        let mut table = KeyTable::default();
        for n in 0..MAX_KEYS + 10 {
            used(&mut table, &n.to_string(), 0);
        }
        assert_eq!((table.seen.len(), table.order.len()), (MAX_KEYS, MAX_KEYS));
    }
}
