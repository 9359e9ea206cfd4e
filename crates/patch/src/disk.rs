//! The file system of this machine.

use std::{
    fs::{self, File, Metadata, Permissions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, linkat, mkdirat, openat, readlinkat, renameat, statat, unlinkat},
    io::Errno,
};

use crate::{
    directory::OpenDirectory,
    files::{FileEntry, FileIdentity, FileMode, FilePlace, FollowLinks, LARGEST_FILE, ReadFiles, WriteFiles},
};

/// How many links are followed before a cycle is assumed.
const MAX_LINKS: usize = 40;

/// The files of this machine, accessed with the rights of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

type DiskPlace = FilePlace<OpenDirectory>;

impl ReadFiles for DiskFiles {
    fn look(&self, path: &Path) -> io::Result<Option<FileEntry>> {
        match present(place(path))? {
            Some(place) => self.look_at(&place),
            None => Ok(None),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match present(place(path))? {
            Some(place) => Ok(self.identity(&place)?.is_some()),
            None => Ok(false),
        }
    }

    fn resolve(&self, path: &Path, follow: FollowLinks) -> io::Result<PathBuf> {
        let mut path = resolve_directories(path)?;
        if follow == FollowLinks::Links {
            path = follow_links(path)?;
        }
        // `..` remains if a link leads through a missing directory. If that directory were created, the path would mean
        // another file than it seems to.
        if path.components().any(|component| component == Component::ParentDir) {
            return Err(io::Error::other("a symbolic link leads nowhere"));
        }
        Ok(path)
    }
}

impl WriteFiles for DiskFiles {
    type Directory = OpenDirectory;

    fn open_directory(&self, path: &Path) -> io::Result<Option<OpenDirectory>> {
        match OpenDirectory::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn create_directory(&self, place: &DiskPlace) -> io::Result<OpenDirectory> {
        mkdirat(&place.directory, &place.name, Mode::from_raw_mode(0o777))?;
        place.directory.open_child(Path::new(&place.name)).inspect_err(|_| {
            // Another process has replaced the directory. If theirs is not empty, it stays.
            let _ = self.remove_directory(place);
        })
    }

    fn look_at(&self, place: &DiskPlace) -> io::Result<Option<FileEntry>> {
        let found = present(statat(&place.directory, &place.name, AtFlags::SYMLINK_NOFOLLOW))?;
        match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
            None => Ok(None),
            Some(FileType::RegularFile) => read(place).map(Some),
            Some(FileType::Symlink) => {
                let target = readlinkat(&place.directory, &place.name, Vec::new())?.into_bytes();
                Ok(Some(FileEntry { content: target, mode: FileMode::Link }))
            }
            Some(FileType::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            Some(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    // The fields have other types on some platforms.
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap, clippy::cast_sign_loss)]
    fn identity(&self, place: &DiskPlace) -> io::Result<Option<FileIdentity>> {
        let found = present(statat(&place.directory, &place.name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(found.map(|found| FileIdentity {
            device: found.st_dev as u64,
            inode: found.st_ino as u64,
            size: found.st_size as u64,
            modified: (found.st_mtime as i64, found.st_mtime_nsec as i64),
        }))
    }

    fn create(
        &self,
        place: &DiskPlace,
        content: &[u8],
        like: Option<&DiskPlace>,
    ) -> io::Result<FileIdentity> {
        let like = like.map(open_regular).transpose()?;
        let mode = match &like {
            // As with any other write, new content does not keep the set-user-ID and set-group-ID bits.
            Some((_, metadata)) => metadata.mode() & 0o777,
            None => new_file_mode(place)?,
        };
        let mut file = create_new(place, 0o600)?;
        file.write_all(content)?;
        if let Some((_, metadata)) = &like {
            // Only a privileged process may change the owner; otherwise the new file belongs to this user.
            let _ = fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file_identity(&file.metadata()?))
    }

    fn duplicate(&self, place: &DiskPlace, copy: &DiskPlace) -> io::Result<()> {
        // Without flags, the new name for a symbolic link refers to the link itself.
        if linkat(&place.directory, &place.name, &copy.directory, &copy.name, AtFlags::empty()).is_ok() {
            return Ok(());
        }
        match self.look_at(place)? {
            Some(entry) if entry.mode != FileMode::Link => {
                self.create(copy, &entry.content, Some(place)).map(drop)
            }
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &DiskPlace, to: &DiskPlace) -> io::Result<()> {
        Ok(renameat(&from.directory, &from.name, &to.directory, &to.name)?)
    }

    fn remove(&self, place: &DiskPlace) -> io::Result<()> {
        Ok(unlinkat(&place.directory, &place.name, AtFlags::empty())?)
    }

    fn remove_directory(&self, place: &DiskPlace) -> io::Result<()> {
        Ok(unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR)?)
    }

    fn sync(&self, place: &DiskPlace) -> io::Result<()> {
        open_regular(place)?.0.sync_all()
    }

    fn sync_directory(&self, directory: &OpenDirectory) -> io::Result<()> {
        File::from(directory.reopen()?).sync_all()
    }
}

/// Opens the directory of a file, which must exist.
fn place(path: &Path) -> io::Result<DiskPlace> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let directory = OpenDirectory::open(parent)?;
    Ok(FilePlace { directory, name: name.to_owned(), path: path.to_owned() })
}

fn present<T, E: Into<io::Error>>(found: Result<T, E>) -> io::Result<Option<T>> {
    match found.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        // A file instead of a directory has nothing below it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a file. Checks its size while reading, because it may grow.
fn read(place: &DiskPlace) -> io::Result<FileEntry> {
    let (file, metadata) = open_regular(place)?;
    let mut content = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let is_executable = metadata.mode() & 0o100 != 0;
    Ok(FileEntry { content, mode: if is_executable { FileMode::Executable } else { FileMode::Regular } })
}

/// Opens a regular file for reading, without following a link or waiting for a pipe.
fn open_regular(place: &DiskPlace) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(&place.directory, &place.name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file, metadata))
}

fn create_new(place: &DiskPlace, mode: u32) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&place.directory, &place.name, flags, Mode::from_raw_mode(mode as _)).map(File::from)
}

/// Returns the mode that a new file gets in a directory by default. Reading the umask would change it for a moment for all
/// threads, and would miss default access lists of the directory. So this creates an empty file and reads its mode.
fn new_file_mode(place: &DiskPlace) -> io::Result<u32> {
    let sample = DiskPlace { name: temporary_name().into(), ..place.clone() };
    let file = create_new(&sample, 0o666)?;
    let mode = file.metadata().map(|metadata| metadata.mode() & 0o777);
    DiskFiles.remove(&sample)?;
    mode
}

/// Returns a name for a temporary file that no other process can predict.
pub(crate) fn temporary_name() -> String {
    let number = RandomState::new().build_hasher().finish();
    format!(".codicil-{number:016x}.tmp")
}

fn file_identity(metadata: &Metadata) -> FileIdentity {
    FileIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    }
}

fn follow_links(mut path: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = resolve_directories(&sibling(&path, &target))?,
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Follows links in the existing directories of a path.
fn resolve_directories(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path.to_owned()) };
    match fs::canonicalize(parent) {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(resolve_directories(parent)?.join(name)),
        // Nothing can be below a file; reading or writing there returns its own error.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn sibling(link: &Path, target: &Path) -> PathBuf {
    link.parent().unwrap_or(Path::new("/")).join(target)
}
