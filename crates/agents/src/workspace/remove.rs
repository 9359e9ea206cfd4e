//! Removing a workspace, also one whose directories the agent has closed.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A directory that is removed with this value.
#[derive(Debug)]
pub(super) struct OwnedDirectory(pub PathBuf);

impl OwnedDirectory {
    /// Removes it now, and says if that failed.
    pub fn remove(self) -> io::Result<()> {
        // Dropping it tries once more, and finds nothing if this went well.
        remove(&self.0)
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a workspace could not be removed");
        }
    }
}

/// How often removal is tried: a process of the agent that is just ending may still write.
const TRIES: usize = 4;

/// Removes a directory with all that is in it. Links are removed, not followed.
fn remove(path: &Path) -> io::Result<()> {
    let mut result = fs::remove_dir_all(path);
    for _ in 1..TRIES {
        match &result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                open_up(path);
                result = fs::remove_dir_all(path);
            }
            _ => break,
        }
    }
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Gives the owner back what is needed to empty directories. What fails shows when removing.
fn open_up(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if !is_directory {
        return;
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}
