//! Which thread is meant: by its id, in any spelling, or by its file.

use std::{
    io::{self, Read},
    path::Path,
};

use codicil_protocol::ThreadId;
use uuid::Uuid;

use crate::error::ThreadError;

/// Ids are UUIDs, in any of their spellings. The sentences are the reference server's.
pub(super) fn canonical(id: &ThreadId) -> Result<ThreadId, ThreadError> {
    let error = match Uuid::parse_str(id) {
        Ok(uuid) => return Ok(ThreadId::from(uuid.to_string())),
        Err(error) => error,
    };
    let stray = id.char_indices().find(|(_, letter)| !letter.is_ascii_hexdigit() && *letter != '-');
    Err(ThreadError::MalformedId(match stray {
        Some((at, letter)) => format!(
            "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], \
             found `{letter}` at {}",
            at + 1
        ),
        None if !id.contains('-') => {
            format!("invalid length: expected length 32 for simple format, found {}", id.len())
        }
        None => error.to_string(),
    }))
}

/// The thread that a file holds. It is looked at only to say what is wrong with it: the thread is found by its
/// name, wherever it is kept now.
pub(super) async fn thread_of_file(path: &str) -> Result<ThreadId, ThreadError> {
    let unreadable = |reason: String| ThreadError::BadRollout { path: path.to_owned(), reason };
    let owned = path.to_owned();
    let looked = tokio::task::spawn_blocking(move || has_content(&owned)).await;
    match looked.map_err(|_| ThreadError::Closed)? {
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(false) => return Err(unreadable("empty session file".to_owned())),
        Ok(true) => {}
    }
    let stem = Path::new(path).file_stem().and_then(std::ffi::OsStr::to_str);
    let id = stem.and_then(|stem| stem.get(stem.len().checked_sub(36)?..));
    let id = id.filter(|id| Uuid::parse_str(id).is_ok());
    id.map(ThreadId::from).ok_or_else(|| unreadable("failed to parse thread ID from rollout file".to_owned()))
}

/// Whether there is something to read.
fn has_content(path: &str) -> io::Result<bool> {
    Ok(codicil_store::open_regular(Path::new(path))?.read(&mut [0])? > 0)
}
