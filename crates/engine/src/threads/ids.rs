//! Thread ids in requests: any spelling of a UUID, or the path of a thread's file.

use std::{
    io::{self, Read},
    path::Path,
};

use codicil_protocol::ThreadId;
use uuid::Uuid;

use crate::error::ThreadError;

/// Returns the canonical form of an id, which may be any spelling of a UUID. The error texts are those of the reference
/// server.
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

/// Returns the thread that a file holds. The file is read only to report what is wrong with it: the id is part of the
/// name, and the file may have been moved since.
pub(super) async fn thread_of_file(path: &str) -> Result<ThreadId, ThreadError> {
    let unreadable = |reason: String| ThreadError::BadRollout { path: path.to_owned(), reason };
    let owned = path.to_owned();
    let checked = tokio::task::spawn_blocking(move || has_content(&owned)).await;
    match checked.map_err(|_| ThreadError::Closed)? {
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(false) => return Err(unreadable("empty session file".to_owned())),
        Ok(true) => {}
    }
    let stem = Path::new(path).file_stem().and_then(std::ffi::OsStr::to_str);
    let id = stem.and_then(|stem| stem.get(stem.len().checked_sub(36)?..));
    let id = id.filter(|id| Uuid::parse_str(id).is_ok());
    id.map(ThreadId::from).ok_or_else(|| unreadable("failed to parse thread ID from rollout file".to_owned()))
}

fn has_content(path: &str) -> io::Result<bool> {
    Ok(codicil_store::open_regular(Path::new(path))?.read(&mut [0])? > 0)
}
