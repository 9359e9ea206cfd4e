//! The real file system.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use crate::files::{Entry, FileMode, Files, Follow, LARGEST_FILE, WriteFiles};

/// Links that are followed before a loop is assumed.
const MOST_LINKS: usize = 40;

/// Files on this machine, with the rights of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        let Some(metadata) = present(fs::symlink_metadata(path))? else { return Ok(None) };
        if metadata.is_symlink() {
            let target = fs::read_link(path)?.into_os_string().into_encoded_bytes();
            return Ok(Some(Entry { content: target, mode: FileMode::Link }));
        }
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Some(Entry { content: read(path)?, mode: mode(&metadata) }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(present(fs::symlink_metadata(path))?.is_some())
    }

    fn resolve(&self, path: &Path, follow: Follow) -> io::Result<PathBuf> {
        let mut path = resolve_directories(path)?;
        if follow == Follow::Links {
            path = follow_links(path)?;
        }
        // Left over where a link leads through something that does not exist. Were that created, the path
        // would mean something else than it seems to.
        if path.components().any(|component| component == Component::ParentDir) {
            return Err(io::Error::other("a symbolic link leads nowhere"));
        }
        Ok(path)
    }
}

impl WriteFiles for Disk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create(&self, path: &Path, content: &[u8], like: Option<&Path>) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(content)?;
        match like.map(fs::metadata) {
            Some(Ok(metadata)) => imitate(&file, &metadata),
            _ => Ok(()),
        }
    }

    fn duplicate(&self, path: &Path, copy: &Path) -> io::Result<()> {
        if fs::hard_link(path, copy).is_ok() {
            return Ok(());
        }
        match self.look(path)? {
            Some(entry) if entry.mode != FileMode::Link => self.create(copy, &entry.content, Some(path)),
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        // Directories can be opened and synced on Unix only.
        if path.is_dir() && !cfg!(unix) {
            return Ok(());
        }
        File::open(path)?.sync_all()
    }
}

fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        // A file where a directory is expected: below it there is nothing.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The size is checked while reading, since a file may grow.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

fn follow_links(mut path: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = resolve_directories(&sibling(&path, &target))?,
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Follows links in the directories of a path, as far as they exist.
fn resolve_directories(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
    match fs::canonicalize(parent) {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(resolve_directories(parent)?.join(name)),
        // Nothing can be below a file; reading or writing there says so in its own words.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn sibling(link: &Path, target: &Path) -> PathBuf {
    link.parent().unwrap_or(Path::new("/")).join(target)
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> FileMode {
    use std::os::unix::fs::PermissionsExt;
    if metadata.permissions().mode() & 0o100 == 0 { FileMode::Regular } else { FileMode::Executable }
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> FileMode {
    FileMode::Regular
}

#[cfg(unix)]
fn imitate(file: &File, like: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    // Only a privileged process may give files away; for others the new file is their own.
    let _ = fchown(file, Some(like.uid()), Some(like.gid()));
    // As with any other write, new content does not inherit the right to run as somebody else.
    file.set_permissions(Permissions::from_mode(like.mode() & 0o777))
}

#[cfg(not(unix))]
fn imitate(file: &File, like: &Metadata) -> io::Result<()> {
    let permissions: Permissions = like.permissions();
    file.set_permissions(permissions)
}
