//! Blobs: large strings (command output, images, pasted files) in separate files, stored once by content.
//!
//! A record is encoded as JSON first. Then every string above [`BLOB_MIN`] is replaced by `"blob:sha256:<hash>"`, and the
//! line is marked. On a marked line *every* string with this prefix is a reference: a string that only looks like one is
//! stored as a blob too, so references are unambiguous. Working on the JSON text makes this independent of the position of
//! a string in the record.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use memchr::memchr2;
use sha2::{Digest, Sha256};

use crate::{
    error::{Result, StoreError},
    layout::{self, HomeLayout},
};

/// The length of the JSON of a string above which it is stored as a blob. Shorter strings are cheaper to repeat in items,
/// context and forks than to store in a file.
pub const BLOB_MIN: usize = 32 * 1024;

const REFERENCE: &str = "blob:sha256:";

/// The age at which a temporary file counts as left behind by a process that was killed.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

const TEMPORARY_PREFIX: &str = ".new-";

/// A record whose large strings are replaced by references.
pub struct LeanRecord {
    pub json: String,
}

/// Where the blobs of lines are read from.
pub trait BlobSource: Sync {
    /// Returns a blob; `None` if it is missing.
    fn blob(&self, hash: &str) -> Option<String>;
}

impl BlobSource for HomeLayout {
    fn blob(&self, hash: &str) -> Option<String> {
        read(self, hash)
    }
}

/// Blobs that were read before.
impl BlobSource for HashMap<String, String> {
    fn blob(&self, hash: &str) -> Option<String> {
        self.get(hash).cloned()
    }
}

/// Replaces the large strings of a record by references, after `save` has stored them and returned their hashes. `None` if
/// there are none, which is the usual case and costs one comparison.
pub fn move_out(json: &str, mut save: impl FnMut(String) -> Result<String>) -> Result<Option<LeanRecord>> {
    let is_large = |token: &str| token.len() > BLOB_MIN;
    if json.len() <= BLOB_MIN || !strings(json).any(|token| is_large(token.text)) {
        return Ok(None);
    }
    let mut lean = LeanRecord { json: String::new() };
    let mut copied = 0;
    for token in strings(json) {
        if !is_large(token.text) && !is_reference(token.text) {
            continue;
        }
        let hash = save(serde_json::from_str(token.text)?)?;
        lean.json.push_str(json.get(copied..token.start).unwrap_or_default());
        lean.json.push_str(&format!("\"{REFERENCE}{hash}\""));
        copied = token.start + token.text.len();
    }
    lean.json.push_str(json.get(copied..).unwrap_or_default());
    Ok(Some(lean))
}

/// Replaces the references of a marked line by the strings. A missing blob is replaced by a note and added to `missing`, so
/// that one lost image does not lose the thread.
pub fn move_in(blobs: &dyn BlobSource, json: &str, missing: &mut Vec<String>) -> String {
    let mut whole = String::with_capacity(json.len() + 2 * BLOB_MIN);
    let mut copied = 0;
    for token in strings(json) {
        let Some(hash) = reference(token.text) else { continue };
        let content = blobs.blob(hash).unwrap_or_else(|| {
            missing.push(hash.to_owned());
            format!("[the content {hash} is missing]")
        });
        whole.push_str(json.get(copied..token.start).unwrap_or_default());
        whole.push_str(&serde_json::Value::from(content).to_string());
        copied = token.start + token.text.len();
    }
    whole.push_str(json.get(copied..).unwrap_or_default());
    whole
}

/// Returns the hashes that the JSON of a marked line refers to.
pub fn references(json: &str) -> impl Iterator<Item = &str> {
    strings(json).filter_map(|token| reference(token.text))
}

/// Returns the hash of a blob, which is its name.
pub fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_reference(token: &str) -> bool {
    token.strip_prefix('"').is_some_and(|text| text.starts_with(REFERENCE))
}

fn reference(token: &str) -> Option<&str> {
    let hash = token.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(REFERENCE)?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// Stores a blob in a home, unless it is there. Adds its path to `written` if it is not durable yet.
pub fn save(layout: &HomeLayout, content: &[u8], written: &mut Vec<PathBuf>) -> Result<String> {
    let hash = hash(content);
    let path = layout.blob(&hash);
    // A file of another length is the rest of an earlier attempt that was cut short by a full disk or a power cut.
    if fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64) {
        return Ok(hash);
    }
    let directory = path.parent().unwrap_or(layout.home());
    layout::make_dir(directory)?;
    put(&path, directory, content).map_err(StoreError::io("write", &path))?;
    written.push(path);
    Ok(hash)
}

/// Writes a temporary file and renames it, so that a blob is whole or absent. It is synced with the records that name
/// it, see [`sync`].
fn put(path: &Path, directory: &Path, content: &[u8]) -> io::Result<()> {
    remove_leftovers(directory);
    // Created with mode 0600.
    let mut temporary = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(directory)?;
    temporary.write_all(content)?;
    temporary.persist(path)?;
    Ok(())
}

/// Removes temporary files of killed processes.
fn remove_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY_PREFIX));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_temporary && age().is_some_and(|age| age > LEFTOVER_AGE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn read(layout: &HomeLayout, hash: &str) -> Option<String> {
    layout::read_regular(&layout.blob(hash)).ok().and_then(|content| String::from_utf8(content).ok())
}

/// Makes blobs durable, before the records that refer to them.
pub fn sync(blobs: &[PathBuf]) -> Result<()> {
    for path in blobs {
        layout::open_regular(path).and_then(|file| file.sync_data()).map_err(StoreError::io("sync", path))?;
        if let Some(directory) = path.parent() {
            layout::sync_dir(directory)?;
        }
    }
    Ok(())
}

/// A JSON string with its quotes, and its position.
struct JsonString<'a> {
    text: &'a str,
    start: usize,
}

/// Returns the strings of a JSON text, in order. Invalid JSON yields fewer or other tokens.
fn strings(json: &str) -> impl Iterator<Item = JsonString<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', json.as_bytes().get(at..)?)?;
        let mut end = start + 1;
        loop {
            let special = end + memchr2(b'"', b'\\', json.as_bytes().get(end..)?)?;
            match json.as_bytes().get(special) {
                Some(b'\\') => end = special + 2,
                _ => break end = special + 1,
            }
        }
        at = end;
        Some(JsonString { text: json.get(start..end)?, start })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn round_trip(value: &Value) -> (Option<LeanRecord>, usize) {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().into());
        let json = value.to_string();
        let lean = move_out_to(&layout, &json);
        if let Some(lean) = &lean {
            let mut missing = Vec::new();
            let back = move_in(&layout, &lean.json, &mut missing);
            assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), *value);
            assert!(missing.is_empty());
        }
        let files = walk(home.path());
        (lean, files)
    }

    fn move_out_to(layout: &HomeLayout, json: &str) -> Option<LeanRecord> {
        move_out(json, |content| save(layout, content.as_bytes(), &mut Vec::new())).unwrap()
    }

    fn walk(dir: &Path) -> usize {
        fs::read_dir(dir)
            .unwrap()
            .flatten()
            .fold(0, |sum, entry| sum + if entry.path().is_dir() { walk(&entry.path()) } else { 1 })
    }

    #[test]
    fn small_records_are_left_alone() {
        let many: Vec<_> = (0..5000).map(|n| format!("line {n} \"quoted\"")).collect();
        assert!(round_trip(&json!({ "output": "small", "many": many })).0.is_none());
    }

    #[test]
    fn equal_strings_are_stored_once() {
        let big = "\"é\\\n".repeat(BLOB_MIN);
        let (lean, files) = round_trip(&json!({ "a": big, "b": [big, "small"], "c": "\\" }));
        assert!(lean.unwrap().json.len() < 400);
        assert_eq!(files, 1);
    }

    #[test]
    fn a_string_that_looks_like_a_reference_stays_itself() {
        let fake = format!("{REFERENCE}{}", "0".repeat(64));
        let (lean, files) = round_trip(&json!({ "a": fake, "b": "x".repeat(BLOB_MIN + 1), "c": REFERENCE }));
        assert!(lean.is_some());
        assert_eq!(files, 3);
    }

    #[test]
    fn leftovers_of_killed_processes_are_removed_with_the_next_blob() {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().into());
        let content = "x".repeat(BLOB_MIN + 1);
        let hash: String =
            Sha256::digest(content.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let directory = layout.blob(&hash).parent().unwrap().to_owned();
        fs::create_dir_all(&directory).unwrap();
        let old = directory.join(".new-1-0");
        let young = directory.join(".new-1-1");
        let left = fs::File::create(&old).unwrap();
        left.set_modified(std::time::SystemTime::now() - LEFTOVER_AGE * 2).unwrap();
        fs::write(&young, "").unwrap();
        move_out_to(&layout, &json!({ "a": content }).to_string()).unwrap();
        assert!(!old.exists() && young.exists());
    }

    #[test]
    fn a_missing_blob_is_named() {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().into());
        let json = json!({ "a": "x".repeat(BLOB_MIN + 1) }).to_string();
        let mut written = Vec::new();
        let save = |content: String| save(&layout, content.as_bytes(), &mut written);
        let lean = move_out(&json, save).unwrap().unwrap();
        fs::remove_file(&written[0]).unwrap();
        let mut missing = Vec::new();
        let text = move_in(&layout, &lean.json, &mut missing);
        assert!(text.contains("is missing") && missing.len() == 1, "{text}");
    }
}
