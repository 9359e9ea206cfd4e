//! `auth.json` in the home: readable only by its owner, and replaced atomically.

use std::{fs, io, path::PathBuf};

use codicil_config::{HomeDirectory, replace_private};

use super::{StorageError, parse, render};
use crate::credentials::StoredCredentials;

/// Upper bound of a valid file.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) struct AuthFile {
    home: HomeDirectory,
    path: PathBuf,
}

impl AuthFile {
    pub fn of(home: &HomeDirectory) -> Self {
        Self { home: home.clone(), path: home.path().join("auth.json") }
    }

    pub fn load(&self) -> Result<Option<StoredCredentials>, StorageError> {
        let text = match read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(StorageError::Read { path: self.path.clone(), cause }),
        };
        parse(&self.path, &text).map(Some)
    }

    pub fn save(&self, stored: &StoredCredentials) -> Result<(), StorageError> {
        let written =
            self.home.ensure().and_then(|()| replace_private(&self.path, render(stored).as_bytes()));
        written.map_err(|cause| StorageError::Write { path: self.path.clone(), cause })
    }

    pub fn remove(&self) -> Result<bool, StorageError> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(StorageError::Write { path: self.path.clone(), cause }),
        }
    }
}

fn read(path: &PathBuf) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    fs::read(path)
}
