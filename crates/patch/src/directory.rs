//! Open directories, opened without following symbolic links.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

/// The access mode of a descriptor that is used for names in a directory, not for reading the directory.
#[cfg(target_os = "linux")]
const ACCESS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const ACCESS: OFlags = OFlags::RDONLY;

/// An open directory, closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct OpenDirectory(Arc<OwnedFd>);

impl OpenDirectory {
    /// Opens an absolute path. The error is `ELOOP` if one of its components is a symbolic link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut names = path.components();
        let is_plain = names.next() == Some(Component::RootDir)
            && names.all(|component| matches!(component, Component::Normal(_)));
        if !is_plain {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self(Arc::new(open_at_once(path)?)))
    }

    /// Opens a directory in this one. A symbolic link of that name is not followed.
    pub(crate) fn open_child(&self, name: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(open_step(self.as_fd(), name)?)))
    }

    /// Opens this directory for reading, which `fsync` needs.
    pub(crate) fn reopen(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(self.as_fd(), ".", flags, Mode::empty())?)
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn open_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let flags = ACCESS | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // Kernels before 5.6, and system call filters of containers that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_step_by_step(path),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    open_step_by_step(path)
}

fn open_step_by_step(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = ACCESS | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = openat(CWD, "/", flags, Mode::empty())?;
    for component in path.components() {
        if let Component::Normal(name) = component {
            directory = open_step(directory.as_fd(), Path::new(name))?;
        }
    }
    Ok(directory)
}

fn open_step(directory: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = ACCESS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        // Systems return different errors for a link here; callers rely on this one.
        Err(Errno::NOTDIR) if is_link(directory, name) => Err(Errno::LOOP),
        opened => opened,
    }
}

fn is_link(directory: BorrowedFd<'_>, name: &Path) -> bool {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn both_ways_to_open_refuse_links_and_find_directories() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink("a", root.join("link")).unwrap();
        for open in [open_at_once, open_step_by_step] {
            let check = |path: &str, expected: Result<(), Errno>| {
                assert_eq!(open(&root.join(path)).map(drop), expected, "{path}");
            };
            check("a/b", Ok(()));
            check("link", Err(Errno::LOOP));
            check("link/b", Err(Errno::LOOP));
            check("none/b", Err(Errno::NOENT));
            check("file/b", Err(Errno::NOTDIR));
            assert!(open(Path::new("/")).is_ok());
        }
    }

    #[test]
    fn only_absolute_paths_without_dots_are_opened() {
        for path in ["a", "/a/../b", ""] {
            assert_eq!(OpenDirectory::open(Path::new(path)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
