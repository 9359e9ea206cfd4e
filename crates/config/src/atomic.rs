//! Replacing a file as a whole: readers see the old text or the new one, never a part.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Links that are followed before a loop is assumed.
const MAX_LINKS: usize = 32;

/// The file a path leads to in the end, which need not exist. A link stays a link when its file is replaced.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Writes beside the file and renames. The file keeps its mode; a new one is for its owner only.
///
/// `unchanged` is asked at the last moment; the file is left alone when it says no, and the answer returned.
pub(crate) fn replace(path: &Path, text: &str, unchanged: impl FnOnce() -> bool) -> io::Result<bool> {
    let temporary = Temporary::create_beside(path)?;
    let mut file = temporary.file()?;
    file.write_all(text.as_bytes())?;
    if let Ok(metadata) = fs::metadata(path) {
        file.set_permissions(metadata.permissions())?;
    }
    file.sync_all()?;
    if !unchanged() {
        return Ok(false);
    }
    temporary.rename_to(path)?;
    sync_folder(path)?;
    Ok(true)
}

/// Replaces a file that holds credentials: the new one is for its owner only, whatever the old one was. A link stays
/// a link; its file is replaced.
pub fn replace_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = follow_links(path)?;
    let temporary = Temporary::create_beside(&path)?;
    let mut file = temporary.file()?;
    file.write_all(text)?;
    file.sync_all()?;
    temporary.rename_to(&path)?;
    sync_folder(&path)
}

/// A file that goes away unless it is renamed.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create_beside(path: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = path.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
            match open_private(OpenOptions::new().write(true).create_new(true)).open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    fn rename_to(self, path: &Path) -> io::Result<()> {
        // Dropping `self` afterwards finds nothing to remove.
        fs::rename(&self.path, path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
pub(crate) fn open_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// So that the new name survives a power cut. Not every system can sync a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().map(File::open) {
        Some(Ok(folder)) if cfg!(unix) => folder.sync_all(),
        _ => Ok(()),
    }
}
