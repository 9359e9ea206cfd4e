//! Installed plugins on disk: `plugins/cache/MARKETPLACE/NAME/local` in the home.
//!
//! A plugin is copied beside its place and then put there in one step, so a thread that reads it meanwhile
//! sees the old one or the new one. A lock orders servers that share a home.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{PluginId, error::PluginError, manifest};

const VERSION: &str = "local";
/// The ending of folders that are being filled, or on their way out.
const STAGED: &str = ".staged";

const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 1 << 30;
const MAX_DEPTH: usize = 32;

/// Copying a plugin may take a while; a lock that is held for longer belongs to something that hangs.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOCK_POLL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct PluginStore {
    cache: PathBuf,
}

impl PluginStore {
    pub fn new(home: &Path) -> Self {
        Self { cache: home.join("plugins/cache") }
    }

    /// Where a plugin's files are once it is installed.
    pub fn root(&self, id: &PluginId) -> PathBuf {
        self.place(id).join(VERSION)
    }

    pub fn has(&self, id: &PluginId) -> bool {
        self.root(id).is_dir()
    }

    /// Copies a plugin into the store, in place of what was there.
    pub fn install(&self, id: &PluginId, source: &Path) -> Result<(), PluginError> {
        if !source.is_dir() {
            return Err(PluginError::NoSource(source.to_owned()));
        }
        let named = manifest::load(source).ok_or(PluginError::NoManifest)?.name;
        if named != id.name() {
            return Err(PluginError::OtherName { manifest: named, marketplace: id.name().to_owned() });
        }
        let shelf = self.shelf(id);
        fs::create_dir_all(&shelf).map_err(PluginError::Install)?;
        let _lock = self.lock().map_err(PluginError::Install)?;
        clean(&shelf);
        let staged = shelf.join(format!("{}{STAGED}", id.name()));
        let copied = TreeCopy::new(&self.cache, source).and_then(|mut copy| {
            fs::create_dir(&staged).map_err(PluginError::Install)?;
            copy.folder(source, &staged.join(VERSION), 0)
        });
        let placed = copied.and_then(|()| put(&staged, &self.place(id)).map_err(PluginError::Install));
        // What is left there now is the old plugin, or a copy that failed.
        clean(&shelf);
        placed
    }

    /// Removes a plugin's files, if there are some.
    pub fn uninstall(&self, id: &PluginId) -> Result<(), PluginError> {
        let (shelf, place) = (self.shelf(id), self.place(id));
        if fs::symlink_metadata(&place).is_err() {
            return Ok(());
        }
        let _lock = self.lock().map_err(PluginError::Uninstall)?;
        clean(&shelf);
        let leaving = shelf.join(format!("{}{STAGED}", id.name()));
        fs::rename(&place, &leaving).map_err(PluginError::Uninstall)?;
        clean(&shelf);
        // Stays when it holds other plugins.
        let _ = fs::remove_dir(&shelf);
        Ok(())
    }

    /// The folder of the marketplace.
    fn shelf(&self, id: &PluginId) -> PathBuf {
        self.cache.join(id.marketplace())
    }

    fn place(&self, id: &PluginId) -> PathBuf {
        self.shelf(id).join(id.name())
    }

    /// Held until the file is dropped, also by a process that is killed.
    fn lock(&self) -> io::Result<File> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(self.cache.join(".lock"))?;
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_POLL),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "another process is installing a plugin",
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// Removes what an earlier attempt left. No plugin's name has a dot, so none is meant.
fn clean(shelf: &Path) {
    for entry in fs::read_dir(shelf).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(STAGED)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!("{} cannot be removed: {error}", entry.path().display());
        }
    }
}

/// Puts a folder into a place; what was there is left under the folder's old name.
fn put(staged: &Path, place: &Path) -> io::Result<()> {
    match exchange(staged, place) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(staged, place),
        // Not every file system can exchange two names.
        Err(_) => {
            fs::remove_dir_all(place)?;
            fs::rename(staged, place)
        }
    }
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, other: &Path) -> io::Result<()> {
    let there = fs::symlink_metadata(other).is_ok();
    let kind = if there { io::ErrorKind::Unsupported } else { io::ErrorKind::NotFound };
    Err(kind.into())
}

/// Copies a tree: folders and files. Links and special files are left out, so nothing points out of it.
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
