//! Opening files of the host without ever following a link.
//!
//! A path is walked name by name, each opened relative to the directory before it. So what is read is what
//! was checked, whatever somebody else renames or links meanwhile.

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

/// What there is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Special,
}

/// Something opened for reading.
pub(super) enum OpenedFile {
    File(File),
    Directory(OwnedFd),
    /// Closed again.
    Special,
}

/// Directories on the way need not be readable.
#[cfg(target_os = "linux")]
const THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const THROUGH: OFlags = OFlags::RDONLY;

/// Opens a path that was canonical when it was looked up; a link in it now means that it was replaced.
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

/// Opens one name of a directory. `shown` is what errors call it.
pub(super) fn open_entry(
    directory: impl AsFd,
    name: &Path,
    shown: &Path,
) -> Result<OpenedFile, WorkspaceError> {
    // Not waiting for the other end of a pipe, should there be one by now.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(directory, name, flags, Mode::empty()).map_err(|errno| failed(shown, errno))?;
    let stat = fstat(&opened).map_err(|errno| failed(shown, errno))?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => OpenedFile::File(File::from(opened)),
        FileType::Directory => OpenedFile::Directory(opened),
        _ => OpenedFile::Special,
    })
}

/// What kind of thing a name of a directory is, without touching it; `None` when it is gone.
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

/// A directory's identity, to notice a circle of links.
pub(super) fn identity(directory: impl AsFd, shown: &Path) -> Result<(u64, u64), WorkspaceError> {
    let stat = fstat(directory).map_err(|errno| failed(shown, errno))?;
    // The width of these differs between systems.
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
    fn a_link_anywhere_in_the_path_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
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
