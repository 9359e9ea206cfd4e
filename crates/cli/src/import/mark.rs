//! How far a file has been taken over: the last record of each batch that an import writes.

use codicil_store::Record;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the record.
const KIND: &str = "import";

/// Kept in the thread itself, so that nothing can get out of step with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportMark {
    pub source: String,
    /// Of the source, whole lines.
    pub bytes: u64,
    /// Of these bytes.
    pub sha256: String,
    /// How many records came from them.
    pub records: u64,
    pub name: Option<String>,
    pub archived: bool,
}

impl ImportMark {
    pub fn record(&self) -> anyhow::Result<Record> {
        Ok(Record::Extra { kind: KIND.to_owned(), data: serde_json::to_value(self)? })
    }

    /// `None` for records that something else wrote.
    pub fn of(record: Record) -> Option<Self> {
        match record {
            Record::Extra { kind, data } if kind == KIND => serde_json::from_value(data).ok(),
            _ => None,
        }
    }
}

/// What was read of a source so far.
#[derive(Clone, Default)]
pub struct SourceDigest {
    pub bytes: u64,
    hash: Sha256,
}

impl SourceDigest {
    pub fn add(&mut self, line: &[u8]) {
        self.bytes += line.len() as u64;
        self.hash.update(line);
    }

    pub fn sha256(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_again() {
        let mark =
            ImportMark { source: "/a".into(), bytes: 7, records: 3, archived: true, ..ImportMark::default() };
        assert_eq!(ImportMark::of(mark.record().unwrap()), Some(mark));
        assert_eq!(ImportMark::of(Record::Rollback { turns: 1 }), None);
        let other = Record::Extra { kind: "other".into(), data: serde_json::json!({}) };
        assert_eq!(ImportMark::of(other), None);
    }
}
