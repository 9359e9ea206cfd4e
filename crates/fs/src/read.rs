//! Reads files: contents, metadata, directories.

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

/// How much of a file is in memory besides its base64. A multiple of three, so that pieces join without padding.
const PIECE_BYTES: usize = 3 << 14;

/// The size of a directory entry in a response, without its name.
const ENTRY_BYTES: usize = 56;

/// Appends the contents of a file as base64, in one pass over the file.
pub fn read_base64(path: &Path, limit: u64, text: &mut String) -> Result<(), FileError> {
    let mut file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(FileError::TooLarge { limit });
    }
    // With some room for what the caller appends.
    text.reserve(length.div_ceil(3) as usize * 4 + 16);
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut total = 0;
    loop {
        piece.clear();
        let read = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        total += read as u64;
        // The file may have grown, and files of /proc have the length 0.
        if total > limit {
            return Err(FileError::TooLarge { limit });
        }
        BASE64_STANDARD.encode_string(&piece, text);
        if read < PIECE_BYTES {
            return Ok(());
        }
    }
}

/// Returns the metadata of a path, with links followed.
pub fn metadata(path: &Path) -> Result<FsGetMetadataResponse, FileError> {
    let metadata = fs::metadata(path)?;
    Ok(FsGetMetadataResponse {
        is_directory: metadata.is_dir(),
        is_file: metadata.is_file(),
        is_symlink: path.is_symlink(),
        created_at_ms: milliseconds(metadata.created()),
        modified_at_ms: milliseconds(metadata.modified()),
    })
}

fn milliseconds(time: io::Result<SystemTime>) -> i64 {
    let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| since.as_millis().try_into().ok()).unwrap_or(0)
}

/// Returns the entries of a directory in the system's order. `limit` is their size in a response in bytes.
pub fn read_directory(path: &Path, limit: usize) -> Result<Vec<FsReadDirectoryEntry>, FileError> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // Only a link needs another look-up. A dangling one is neither file nor directory.
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

/// Opens a regular file without blocking. Other files are not opened.
pub fn open_regular(path: &Path) -> Result<File, FileError> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR).into());
    }
    // Checked before opening as well, because opening some devices has an effect.
    check_regular(&found)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

pub(crate) fn check_regular(metadata: &Metadata) -> Result<(), FileError> {
    if metadata.is_file() { Ok(()) } else { Err(FileError::NotRegular) }
}
