//! Stores installed plugins in `plugins/cache/MARKETPLACE/NAME/local` of the home.
//!
//! A plugin is copied to a staging folder and then moved into place atomically, so a concurrent reader sees
//! either the old or the new plugin. A lock serialises servers that share a home.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_config::lock_within;

use super::{PluginId, error::PluginError, manifest};

const VERSION: &str = "local";
/// Suffix of staging folders, which are being filled or removed.
const STAGED: &str = ".staged";

const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 1 << 30;
const MAX_DEPTH: usize = 32;

/// Maximum time to wait for the lock. Copying a plugin takes a while, but not this long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(crate) struct PluginStore {
    cache: PathBuf,
}

impl PluginStore {
    pub fn new(home: &Path) -> Self {
        Self { cache: home.join("plugins/cache") }
    }

    /// Returns the folder of an installed plugin's files.
    pub fn root(&self, id: &PluginId) -> PathBuf {
        self.place(id).join(VERSION)
    }

    pub fn has(&self, id: &PluginId) -> bool {
        self.root(id).is_dir()
    }

    /// Copies a plugin into the store, replacing an installed version.
    pub fn install(&self, id: &PluginId, source: &Path) -> Result<(), PluginError> {
        if !source.is_dir() {
            return Err(PluginError::NoSource(source.to_owned()));
        }
        let name = manifest::load(source).ok_or(PluginError::NoManifest)?.name;
        if name != id.name() {
            return Err(PluginError::OtherName { manifest: name, marketplace: id.name().to_owned() });
        }
        let folder = self.marketplace_folder(id);
        fs::create_dir_all(&folder).map_err(PluginError::Install)?;
        let _lock = self.lock().map_err(PluginError::Install)?;
        remove_staged(&folder);
        let staged = folder.join(format!("{}{STAGED}", id.name()));
        let copied = TreeCopy::new(&self.cache, source).and_then(|mut copy| {
            fs::create_dir(&staged).map_err(PluginError::Install)?;
            copy.folder(source, &staged.join(VERSION), 0)
        });
        let placed =
            copied.and_then(|()| move_into_place(&staged, &self.place(id)).map_err(PluginError::Install));
        // The staging folder now holds the old plugin, or a copy that failed.
        remove_staged(&folder);
        placed
    }

    /// Removes a plugin's files, if it has any.
    pub fn uninstall(&self, id: &PluginId) -> Result<(), PluginError> {
        let folder = self.marketplace_folder(id);
        let place = self.place(id);
        if fs::symlink_metadata(&place).is_err() {
            return Ok(());
        }
        let _lock = self.lock().map_err(PluginError::Uninstall)?;
        remove_staged(&folder);
        let removed = folder.join(format!("{}{STAGED}", id.name()));
        fs::rename(&place, &removed).map_err(PluginError::Uninstall)?;
        remove_staged(&folder);
        // Fails if the folder holds other plugins.
        let _ = fs::remove_dir(&folder);
        Ok(())
    }

    /// Returns the folder of the plugin's marketplace.
    fn marketplace_folder(&self, id: &PluginId) -> PathBuf {
        self.cache.join(id.marketplace())
    }

    fn place(&self, id: &PluginId) -> PathBuf {
        self.marketplace_folder(id).join(id.name())
    }

    /// Locks the store until the returned file is closed, which also happens when the process is killed.
    fn lock(&self) -> io::Result<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(self.cache.join(".lock"))?;
        match lock_within(&file, LOCK_TIMEOUT) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "another process is installing a plugin"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Removes staging folders. The suffix has a dot, which no plugin's name has.
fn remove_staged(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(STAGED)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// Moves a folder into place. An existing folder there becomes a staging folder.
fn move_into_place(staged: &Path, place: &Path) -> io::Result<()> {
    match exchange(staged, place) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(staged, place),
        // Not every file system can exchange two folders.
        Err(_) => replace_by_renames(staged, place),
    }
}

/// Moves a folder into the place of another one. If that fails, the old folder stays.
fn replace_by_renames(staged: &Path, place: &Path) -> io::Result<()> {
    let old = staged.with_extension(format!("old{STAGED}"));
    fs::rename(place, &old)?;
    fs::rename(staged, place).inspect_err(|_| {
        if let Err(error) = fs::rename(&old, place) {
            tracing::warn!("cannot restore {}: {error}", place.display());
        }
    })
}

#[cfg(target_os = "linux")]
fn exchange(left: &Path, right: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, left, CWD, right, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_left: &Path, right: &Path) -> io::Result<()> {
    let exists = fs::symlink_metadata(right).is_ok();
    let kind = if exists { io::ErrorKind::Unsupported } else { io::ErrorKind::NotFound };
    Err(kind.into())
}

/// Copies folders and regular files. Links and special files are skipped, so that nothing points out of the
/// copy.
struct TreeCopy {
    files: usize,
    bytes: u64,
}

impl TreeCopy {
    fn new(cache: &Path, source: &Path) -> Result<Self, PluginError> {
        let real = |path: &Path| path.canonicalize().map_err(PluginError::Install);
        if real(cache)?.starts_with(real(source)?) {
            return Err(PluginError::NotCopied("its folder contains the server's home"));
        }
        Ok(Self { files: 0, bytes: 0 })
    }

    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), PluginError> {
        if depth > MAX_DEPTH {
            return Err(PluginError::NotCopied("folders are nested too deep"));
        }
        fs::create_dir(to).map_err(PluginError::Install)?;
        for entry in fs::read_dir(from).map_err(PluginError::Install)? {
            let entry = entry.map_err(PluginError::Install)?;
            let kind = entry.file_type().map_err(PluginError::Install)?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                self.folder(&entry.path(), &target, depth + 1)?;
            } else if kind.is_file() {
                self.file(&entry.path(), &target)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), PluginError> {
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(PluginError::NotCopied("it has too many files"));
        }
        self.bytes = self.bytes.saturating_add(fs::metadata(from).map_err(PluginError::Install)?.len());
        if self.bytes > MAX_BYTES {
            return Err(PluginError::NotCopied("it is too large"));
        }
        fs::copy(from, to).map(drop).map_err(PluginError::Install)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("sample");
        let staged = folder.path().join(format!("sample{STAGED}"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("old"), "").unwrap();
        assert!(replace_by_renames(&staged, &place).is_err(), "there is nothing to move");
        assert!(place.join("old").exists());

        fs::create_dir(&staged).unwrap();
        replace_by_renames(&staged, &place).unwrap();
        assert!(!place.join("old").exists());
        remove_staged(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
