//! The interface to the files that a patch is planned for and applied to.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

/// The size of the largest file. Both versions of a patched file are held in memory.
pub const LARGEST_FILE: u64 = 64 * 1024 * 1024;

/// A file as git would store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The contents, or for a symbolic link the path it points to.
    pub content: Vec<u8>,
    pub mode: FileMode,
}

impl FileEntry {
    pub fn regular(content: impl Into<Vec<u8>>) -> Self {
        Self { content: content.into(), mode: FileMode::Regular }
    }
}

/// The three kinds of files in git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    Regular,
    Executable,
    Link,
}

/// Read access to files. All paths are absolute.
pub trait ReadFiles {
    /// Returns the file at a path from [`ReadFiles::resolve`], or `None` if nothing is there. A link is not followed.
    /// Returns an error for directories ([`io::ErrorKind::IsADirectory`]), for devices and similar files
    /// ([`io::ErrorKind::InvalidInput`]), for files above [`LARGEST_FILE`] ([`io::ErrorKind::FileTooLarge`]), and for paths
    /// in which a link was created since (`ELOOP`).
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>>;

    /// Returns whether anything is at a path, including a directory or a dangling link. Returns an error as
    /// [`ReadFiles::look`] does if a link was created in the path.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Returns a path without links in its directories, and with [`FollowLinks::Links`] also without a link at the end.
    /// Components that do not exist are kept.
    fn resolve(&self, path: &Path, follow: FollowLinks) -> io::Result<PathBuf>;
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowLinks {
    Links,
    Nothing,
}

/// The steps of applying a patch. Each is atomic; the caller orders and undoes them.
///
/// Another process may replace directories by links at any time. So a directory is opened once, without following links,
/// and every step names a file in an open directory. No step follows a link.
pub trait WriteFiles: ReadFiles {
    /// An open directory, which stays the same even if its path changes.
    type Directory: Clone;

    /// Opens the directory at an absolute path, or returns `None` if nothing is there. The error is `ELOOP` if the path
    /// contains a link.
    fn open_directory(&self, path: &Path) -> io::Result<Option<Self::Directory>>;

    /// Creates and opens a directory that must not exist.
    fn create_directory(&self, place: &FilePlace<Self::Directory>) -> io::Result<Self::Directory>;

    /// Does what [`ReadFiles::look`] does, in an open directory.
    fn look_at(&self, place: &FilePlace<Self::Directory>) -> io::Result<Option<FileEntry>>;

    /// Returns the identity of a file, or `None` if nothing is there.
    fn identity(&self, place: &FilePlace<Self::Directory>) -> io::Result<Option<FileIdentity>>;

    /// Writes a file that must not exist, with the mode and owner of the regular file `like`. Other users cannot read the
    /// file before it has its final mode.
    fn create(
        &self,
        place: &FilePlace<Self::Directory>,
        content: &[u8],
        like: Option<&FilePlace<Self::Directory>>,
    ) -> io::Result<FileIdentity>;

    /// Creates a hard link to a file or link, or a copy where the file system has no hard links.
    fn duplicate(
        &self,
        place: &FilePlace<Self::Directory>,
        copy: &FilePlace<Self::Directory>,
    ) -> io::Result<()>;

    /// Renames a file, replacing an existing one at `to`.
    fn rename(&self, from: &FilePlace<Self::Directory>, to: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Removes a file or a link.
    fn remove(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Waits until the file would survive a power failure.
    fn sync(&self, place: &FilePlace<Self::Directory>) -> io::Result<()>;

    /// Waits until the directory's entries would survive a power failure.
    fn sync_directory(&self, directory: &Self::Directory) -> io::Result<()>;
}

/// A name in an open directory. A file of that name need not exist.
#[derive(Clone, Debug)]
pub struct FilePlace<D> {
    pub directory: D,
    pub name: OsString,
    /// The path, for messages only.
    pub path: PathBuf,
}

/// The identity of a file, which differs between two files and before and after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Seconds and nanoseconds since the epoch.
    pub modified: (i64, i64),
}

/// Returns whether an operation failed because of a symbolic link, which no operation on a resolved path follows.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}
