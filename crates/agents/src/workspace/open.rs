//! Opens host files without following symbolic links.
//!
//! Each component of a path is opened relative to the directory before it. The file that is read is therefore the file
//! that was checked, even if another process renames or links files meanwhile.

use std::{
    fs::File,
    io,
    path::{Component, Path},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};

use super::error::{SecurityError, WorkspaceError, io_error};

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Special,
}

/// A file or directory opened for reading.
pub(super) enum OpenedFile {
    File(File),
    Directory(OwnedFd),
    /// A special file, closed again.
    Special,
}

/// Directories along the path need not be readable.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = OFlags::RDONLY;

/// Opens a path that was canonical when it was resolved. A link in it now means that it was replaced.
pub(super) fn open_canonical(path: &Path) -> Result<OpenedFile, WorkspaceError> {
    let flags = THROUGH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(last) = names.next_back() else { return open_entry(&at, Path::new("."), path) };
    for name in names {
        at = openat(&at, name, flags, Mode::empty()).map_err(|errno| failed(path, errno))?;
    }
    open_entry(&at, Path::new(last), path)
}

/// Opens an entry of a directory. Errors call it `shown`.
pub(super) fn open_entry(
    directory: impl AsFd,
    name: &Path,
    shown: &Path,
) -> Result<OpenedFile, WorkspaceError> {
    // Does not block if the entry has become a pipe.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(directory, name, flags, Mode::empty()).map_err(|errno| failed(shown, errno))?;
    let stat = fstat(&opened).map_err(|errno| failed(shown, errno))?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => OpenedFile::File(File::from(opened)),
        FileType::Directory => OpenedFile::Directory(opened),
        _ => OpenedFile::Special,
    })
}

/// Returns the kind of a directory entry without opening it; `None` if it does not exist.
pub(super) fn kind_of(directory: impl AsFd, name: &Path) -> io::Result<Option<FileKind>> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Special,
    }))
}

/// Returns the identity of a directory, to detect cycles of links.
pub(super) fn identity(directory: impl AsFd, shown: &Path) -> Result<(u64, u64), WorkspaceError> {
    let stat = fstat(directory).map_err(|errno| failed(shown, errno))?;
    // The width of these fields differs between systems.
    #[allow(clippy::unnecessary_cast)]
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

fn failed(path: &Path, errno: Errno) -> WorkspaceError {
    match errno {
        Errno::LOOP | Errno::NOTDIR => SecurityError::Replaced { path: path.to_owned() }.into(),
        errno => io_error("open", path, errno),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_link_anywhere_in_the_path_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir(base.join("real")).unwrap();
        fs::write(base.join("real/file"), "x").unwrap();
        symlink("real", base.join("alias")).unwrap();
        symlink("real/file", base.join("link")).unwrap();
        assert!(matches!(open_canonical(&base.join("real/file")), Ok(OpenedFile::File(_))));
        assert!(matches!(open_canonical(&base.join("real")), Ok(OpenedFile::Directory(_))));
        for path in ["alias/file", "link", "real/file/x"] {
            let path = base.join(path);
            let error = open_canonical(&path).err().unwrap();
            let expected = SecurityError::Replaced { path };
            assert!(matches!(&error, WorkspaceError::Security(found) if *found == expected), "{error}");
        }
        let absent = open_canonical(&base.join("absent")).err().unwrap();
        assert!(matches!(absent, WorkspaceError::Io { .. }));
        assert!(matches!(open_canonical(Path::new("/")), Ok(OpenedFile::Directory(_))));
    }
}
