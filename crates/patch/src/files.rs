//! The files a patch is planned against and applied to, as the rest of the crate sees them.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Larger files are refused: a patch is a text, and both versions are held in memory.
pub const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// A file as git would store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// For a link, the path it points to.
    pub content: Vec<u8>,
    pub mode: FileMode,
}

impl Entry {
    /// A plain file.
    pub fn regular(content: impl Into<Vec<u8>>) -> Self {
        Self { content: content.into(), mode: FileMode::Regular }
    }
}

/// The three kinds of files that git knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    Regular,
    Executable,
    Link,
}

/// Looking at files. All paths are absolute.
pub trait Files {
    /// What is at the path; a link there is not followed. `None` when there is nothing. Errors for
    /// directories ([`io::ErrorKind::IsADirectory`]), devices and the like ([`io::ErrorKind::InvalidInput`])
    /// and files above [`LARGEST_FILE`] ([`io::ErrorKind::FileTooLarge`]).
    fn look(&self, path: &Path) -> io::Result<Option<Entry>>;

    /// Whether there is anything at all, be it a directory or a broken link.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The same place without links in the directories that lead to it, and with [`Follow::Links`] also
    /// without a link at the end. What does not exist yet is kept as it is.
    fn resolve(&self, path: &Path, follow: Follow) -> io::Result<PathBuf>;
}

/// Whether a link at the end of a path stands for itself or for what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    Links,
    Nothing,
}

/// The steps of which applying a patch is made. Each is atomic by itself; order and undoing are the caller's.
pub trait WriteFiles: Files {
    /// Makes one directory.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Writes a file that must not exist, with the mode and owner of `like`.
    fn create(&self, path: &Path, content: &[u8], like: Option<&Path>) -> io::Result<()>;

    /// A second name for a file or link, or a copy where the system has no second names.
    fn duplicate(&self, path: &Path, copy: &Path) -> io::Result<()>;

    /// Replaces what is at `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file or a link.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns when the file or the directory's names would survive a power cut.
    fn sync(&self, path: &Path) -> io::Result<()>;
}
