//! Large texts, stored once by their content. They are stored before the lines that refer to them.

use std::{collections::HashMap, fmt};

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use crate::{
    connection::column,
    error::{PostgresError, Result},
    store::PostgresStore,
};

/// The maximum size of a blob.
const MAX_BLOB_BYTES: usize = 64 * 1024 * 1024;
/// The number of blobs that are read by one statement.
const READ_AT_ONCE: usize = 16;

/// The hash of a blob's content, which is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }
}

impl BlobHash {
    /// Reads the hash from hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let bytes: Vec<u8> = digits.collect::<Option<_>>()?;
        (text.len() == 64).then_some(())?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PostgresStore {
    /// Stores a blob, unless it is there already.
    pub async fn put_blob(&self, content: &[u8]) -> Result<BlobHash> {
        let bytes = content.len();
        if bytes > MAX_BLOB_BYTES {
            return Err(PostgresError::TooLarge { what: "a text", bytes, limit: MAX_BLOB_BYTES });
        }
        let hash = BlobHash::of(content);
        let sql = "insert into codicil_blob (sha256, body) values ($1, $2) on conflict do nothing";
        let name = hash.0.as_slice();
        self.pool.query("store a text", sql, &[(&name, Type::BYTEA), (&content, Type::BYTEA)]).await?;
        Ok(hash)
    }

    /// Returns the blobs that exist.
    pub async fn read_blobs(&self, hashes: &[BlobHash]) -> Result<HashMap<BlobHash, Vec<u8>>> {
        let sql = "select sha256, body from codicil_blob where sha256 = any($1)";
        let mut found = HashMap::with_capacity(hashes.len());
        for some in hashes.chunks(READ_AT_ONCE) {
            let names: Vec<_> = some.iter().map(|hash| hash.0.as_slice()).collect();
            let answer = self.pool.query("read texts", sql, &[(&names, Type::BYTEA_ARRAY)]).await?;
            for row in &answer.rows {
                let name: &[u8] = column(row, "sha256")?;
                if let Ok(name) = name.try_into() {
                    found.insert(BlobHash(name), column(row, "body")?);
                }
            }
        }
        Ok(found)
    }
}
