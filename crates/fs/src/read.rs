//! Looking at files: contents, metadata, directories.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_protocol::{FsGetMetadataResponse, FsReadDirectoryEntry};

use crate::FileError;

/// How much of a file is in memory beside its base64. A multiple of three, so that pieces join without
/// padding.
const PIECE_BYTES: usize = 3 << 14;

/// What an entry of a directory costs in an answer, beside its name.
const ENTRY_BYTES: usize = 56;

/// Appends the contents of a file as base64, in one pass over the file.
pub fn read_base64(path: &Path, limit: u64, text: &mut String) -> Result<(), FileError> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(FileError::TooLarge { limit });
    }
    // And a little for what the caller puts behind it.
    text.reserve(length.div_ceil(3) as usize * 4 + 16);
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut total = 0;
    loop {
        piece.clear();
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        total += read as u64;
        // The file may have grown, and files of /proc do not tell their length.
        if total > limit {
            return Err(FileError::TooLarge { limit });
        }
        BASE64_STANDARD.encode_string(&piece, text);
        if read < PIECE_BYTES {
            return Ok(());
        }
    }
}

/// What a path leads to, links followed.
pub fn metadata(path: &Path) -> Result<FsGetMetadataResponse, FileError> {
    let metadata = fs::metadata(path)?;
    Ok(FsGetMetadataResponse {
        is_directory: metadata.is_dir(),
        is_file: metadata.is_file(),
        created_at_ms: milliseconds(metadata.created()),
        modified_at_ms: milliseconds(metadata.modified()),
    })
}

fn milliseconds(time: io::Result<SystemTime>) -> i64 {
    let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| since.as_millis().try_into().ok()).unwrap_or(0)
}

/// The children of a directory, as the system orders them. `limit` is for the bytes they take in an answer.
pub fn directory(path: &Path, limit: usize) -> Result<Vec<FsReadDirectoryEntry>, FileError> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // Only a link has to be looked at again. One that leads nowhere is neither file nor directory.
        let target = if kind.is_symlink() { fs::metadata(entry.path()).ok() } else { None };
        let file_name = entry.file_name().to_string_lossy().into_owned();
        bytes += file_name.len() + ENTRY_BYTES;
        if bytes > limit {
            return Err(FileError::TooManyEntries { limit });
        }
        entries.push(FsReadDirectoryEntry {
            file_name,
            is_directory: target.as_ref().map_or(kind.is_dir(), Metadata::is_dir),
            is_file: target.as_ref().map_or(kind.is_file(), Metadata::is_file),
        });
    }
    Ok(entries)
}

/// Opens a regular file. Nothing else is opened, and nothing is waited for.
pub fn open_regular(path: &Path) -> Result<File, FileError> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR).into());
    }
    // Before opening too: with some devices that alone has an effect.
    check_regular(&found)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

pub(crate) fn check_regular(metadata: &Metadata) -> Result<(), FileError> {
    if metadata.is_file() { Ok(()) } else { Err(FileError::NotRegular) }
}
