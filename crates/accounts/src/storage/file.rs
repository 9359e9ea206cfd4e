//! `auth.json` in the home: for its owner only, and replaced whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
};

use codicil_config::Home;

use super::{StorageError, parse, render};
use crate::credentials::Stored;

/// More than this is no auth file.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) struct AuthFile {
    home: Home,
    path: PathBuf,
}

impl AuthFile {
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone(), path: home.path().join("auth.json") }
    }

    pub fn load(&self) -> Result<Option<Stored>, StorageError> {
        let text = match read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(StorageError::Read { path: self.path.clone(), cause }),
        };
        parse(&self.path, &text).map(Some)
    }

    pub fn save(&self, stored: &Stored) -> Result<(), StorageError> {
        let written = self.home.ensure().and_then(|()| self.replace(render(stored).as_bytes()));
        written.map_err(|cause| StorageError::Write { path: self.path.clone(), cause })
    }

    pub fn remove(&self) -> Result<bool, StorageError> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(StorageError::Write { path: self.path.clone(), cause }),
        }
    }

    /// Writes beside the file and renames, so that a reader finds the old content or the new one. The new
    /// file is private whatever the old one was. A link stays a link; its file is replaced.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        // The caller holds the lock, so the number of the process is unique enough.
        let temporary = path.with_file_name(format!(".auth.json.{}.tmp", std::process::id()));
        let written = write_new(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        // So that the new name survives a power cut. Not every system can do that.
        if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

fn read(path: &PathBuf) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    fs::read(path)
}

fn write_new(path: &PathBuf, text: &[u8]) -> io::Result<()> {
    // Left behind by a process of the same number that was killed.
    let _ = fs::remove_file(path);
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}
