//! Removes a workspace, including directories that the agent has made inaccessible.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A directory that is removed with this value.
#[derive(Debug)]
pub(super) struct OwnedDirectory(pub PathBuf);

impl OwnedDirectory {
    /// Removes the directory now and reports errors.
    pub fn remove(self) -> io::Result<()> {
        // Dropping `self` tries again, and finds nothing if this succeeded.
        remove(&self.0)
    }
}

impl Drop for OwnedDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "failed to remove a workspace");
        }
    }
}

/// Attempts to remove the directory: a process of the agent that is ending may still write to it.
const MAX_ATTEMPTS: usize = 4;

/// Removes a directory and its content. Links are removed, not followed.
fn remove(path: &Path) -> io::Result<()> {
    let mut result = fs::remove_dir_all(path);
    for _ in 1..MAX_ATTEMPTS {
        match &result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                restore_permissions(path);
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

/// Restores the permissions that are needed to empty directories. A failure surfaces when removing.
fn restore_permissions(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if !is_directory {
        return;
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        restore_permissions(&entry.path());
    }
}
