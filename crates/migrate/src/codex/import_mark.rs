//! Records how far a file has been imported, as the last record of each batch.

use codicil_store::Record;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The kind of the extra record that holds the mark.
const KIND: &str = "import";

/// How far a file has been imported. It is stored in the thread itself, so that the two cannot disagree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportMark {
    pub source: String,
    /// Length of the imported lines.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: String,
    /// Number of records that were converted from them.
    pub records: u64,
    pub name: Option<String>,
    pub archived: bool,
}

impl ImportMark {
    pub fn to_record(&self) -> Record {
        let data = serde_json::to_value(self).expect("a struct of strings and numbers is valid JSON");
        Record::Extra { kind: KIND.to_owned(), data }
    }

    /// Returns whether the import ended after exactly these bytes.
    pub fn ends_at(&self, read: &SourceDigest) -> bool {
        self.bytes == read.bytes && self.sha256 == read.sha256()
    }

    /// Returns `None` for records that are not marks.
    pub fn from_record(record: Record) -> Option<Self> {
        match record {
            Record::Extra { kind, data } if kind == KIND => serde_json::from_value(data).ok(),
            _ => None,
        }
    }
}

/// The length and hash of what has been read from a source.
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
    fn a_mark_ends_after_the_bytes_that_were_read() {
        let digest = |text: &[u8]| {
            let mut digest = SourceDigest::default();
            digest.add(text);
            digest
        };
        let read = digest(b"abc\n");
        let mark = ImportMark { bytes: read.bytes, sha256: read.sha256(), ..ImportMark::default() };
        assert!(mark.ends_at(&read));
        assert!(!mark.ends_at(&digest(b"abd\n")));
        assert!(!mark.ends_at(&digest(b"abc\nd\n")));
    }

    #[test]
    fn a_mark_is_read_back() {
        let mark =
            ImportMark { source: "/a".into(), bytes: 7, records: 3, archived: true, ..ImportMark::default() };
        assert_eq!(ImportMark::from_record(mark.to_record()), Some(mark));
        assert_eq!(ImportMark::from_record(Record::Rollback { turns: 1 }), None);
        let other = Record::Extra { kind: "other".into(), data: serde_json::json!({}) };
        assert_eq!(ImportMark::from_record(other), None);
    }
}
