//! Changes files: contents, new directories, removal.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{FileError, read::check_regular};

/// Decodes the contents of a file from the protocol's base64.
pub fn decode_contents(data_base64: &str) -> Result<Vec<u8>, FileError> {
    Ok(BASE64_STANDARD.decode(data_base64)?)
}

/// Replaces the contents of a file. The file itself is overwritten, as by the reference server: mode, owner, hard links and
/// symbolic links are kept, and a reader may see incomplete contents.
pub fn write(path: &Path, data: &[u8]) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => check_regular(&found)?,
        // Opening reports a directory or a missing parent with its own error.
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK);
    let mut file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file.write_all(data)?)
}

/// How missing parents of a new directory are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDirectories {
    /// They are created, and the directory may exist.
    Made,
    /// They are an error, and the directory must not exist.
    Required,
}

pub fn create_directory(path: &Path, parents: ParentDirectories) -> Result<(), FileError> {
    match parents {
        ParentDirectories::Made => fs::create_dir_all(path)?,
        ParentDirectories::Required => fs::create_dir(path)?,
    }
    Ok(())
}

/// The options of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveOptions {
    /// Whether a directory is removed with its contents. Otherwise it must be empty.
    pub recursive: bool,
    /// Whether a missing path is not an error.
    pub force: bool,
}

/// Removes a file, a link (never its target) or a directory.
pub fn remove(path: &Path, how: RemoveOptions) -> Result<(), FileError> {
    if path.parent().is_none() {
        return Err(FileError::Root);
    }
    match remove_existing(path, how.recursive) {
        Err(error) if how.force && error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => Ok(result?),
    }
}

fn remove_existing(path: &Path, recursive: bool) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        fs::remove_file(path)
    } else if recursive {
        // Does not follow links, not even ones that are created while it runs.
        fs::remove_dir_all(path)
    } else {
        fs::remove_dir(path)
    }
}
