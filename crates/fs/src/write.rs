//! Changing files: contents, new directories, removal.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{FileError, read::check_regular};

/// Contents as they come over the wire.
pub fn decode(data_base64: &str) -> Result<Vec<u8>, FileError> {
    Ok(BASE64_STANDARD.decode(data_base64)?)
}

/// Makes a file hold this and nothing else. The file itself is overwritten, as the reference server does:
/// mode, owner and both kinds of links stay as they are, and a reader may meanwhile see a part.
pub fn write(path: &Path, data: &[u8]) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => check_regular(&found)?,
        // What is wrong with a directory or a missing parent, opening says best.
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK);
    let mut file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file.write_all(data)?)
}

/// What is made above a new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDirectories {
    /// Whatever is missing; a directory that is already there is fine.
    Made,
    /// Nothing; the directory must be new.
    Required,
}

pub fn create_directory(path: &Path, parents: ParentDirectories) -> Result<(), FileError> {
    match parents {
        ParentDirectories::Made => fs::create_dir_all(path)?,
        ParentDirectories::Required => fs::create_dir(path)?,
    }
    Ok(())
}

/// How much is removed, and whether there has to be something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveOptions {
    /// With all that is inside; otherwise a directory has to be empty.
    pub recursive: bool,
    /// Nothing being there is fine.
    pub force: bool,
}

/// Removes a file, a link (never what it leads to) or a directory.
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
    match (found.is_dir(), recursive) {
        (false, _) => fs::remove_file(path),
        (true, false) => fs::remove_dir(path),
        // Does not follow links, not even such as are put in its way while it works.
        (true, true) => fs::remove_dir_all(path),
    }
}
