//! The files a patch is planned against and applied to, as the rest of the crate sees them.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

/// Larger files are refused: a patch is a text, and both versions are held in memory.
pub const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// A file as git would store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// For a link, the path it points to.
    pub content: Vec<u8>,
    pub mode: FileMode,
}

impl FileEntry {
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
pub trait ReadFiles {
    /// What is at a path that [`ReadFiles::resolve`] returned; a link there is not followed. `None` when there is
    /// nothing. Errors for directories ([`io::ErrorKind::IsADirectory`]), devices and the like
    /// ([`io::ErrorKind::InvalidInput`]), files above [`LARGEST_FILE`] ([`io::ErrorKind::FileTooLarge`]) and
    /// paths on which a link has appeared since (`ELOOP`).
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>>;

    /// Whether there is anything at all, be it a directory or a broken link. Errors as [`ReadFiles::look`] does
    /// when a link has appeared on the path.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The same place without links in the directories that lead to it, and with [`Follow::Links`] also
    /// without a link at the end. What does not exist yet is kept as it is.
    fn resolve(&self, path: &Path, follow: FollowLinks) -> io::Result<PathBuf>;
}

/// Whether a link at the end of a path stands for itself or for what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    Links,
    Nothing,
}

/// The steps of which applying a patch is made. Each is atomic by itself; order and undoing are the caller's.
///
/// Another process may swap directories for links at any time. So a directory is opened once, without
/// following links, and every step names a file in an open directory. No step follows a link.
pub trait WriteFiles: ReadFiles {
    /// An open directory: it stays the same one whatever happens to the path that led to it.
    type Directory: Clone;

    /// Opens the directory at an absolute path. `None` when there is nothing; the error is `ELOOP` when the
    /// path contains a link.
    fn open_directory(&self, path: &Path) -> io::Result<Option<Self::Directory>>;

    /// Makes and opens a directory that must not exist.
    fn create_directory(&self, place: &FilePlace<Self::Directory>) -> io::Result<Self::Directory>;

    /// Does what [`ReadFiles::look`] does, in an open directory.
    fn look_at(&self, place: &FilePlace<Self::Directory>) -> io::Result<Option<FileEntry>>;

    /// Which file is there; `None` when there is nothing.
    fn identity(&self, place: &FilePlace<Self::Directory>) -> io::Result<Option<FileIdentity>>;

    /// Writes a file that must not exist, with the mode and owner of the regular file `like`. Other users
    /// cannot read the file before it has its final mode.
    fn create(
        &self,
        place: &FilePlace<Self::Directory>,
        content: &[u8],
        like: Option<&FilePlace<Self::Directory>>,
    ) -> io::Result<FileIdentity>;

    /// A second name for a file or link, or a copy where the system has no second names.
    fn duplicate(
        &self,
        place: &FilePlace<Self::Directory>,
        copy: &FilePlace<Self::Directory>,
    ) -> io::Result<()>;

    /// Replaces what is at `to`.
    fn rename(&self, from: &FilePlace<Self::Directory>, to: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Removes a file or a link.
    fn remove(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Returns when the file would survive a power cut.
    fn sync(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Returns when the directory's names would survive a power cut.
    fn sync_directory(&self, directory: &Self::Directory) -> io::Result<()>;
}

/// A name in an open directory; there need not be a file of that name.
#[derive(Clone, Debug)]
pub struct FilePlace<D> {
    pub directory: D,
    pub name: OsString,
    /// For messages only.
    pub path: PathBuf,
}

/// Values that differ between two files, and between a file before and after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Seconds and nanoseconds since the epoch.
    pub modified: (i64, i64),
}

/// Whether an operation failed because it met a link, which no operation on a resolved path follows.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
