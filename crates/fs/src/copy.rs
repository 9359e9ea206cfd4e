//! Copies files and trees.
//!
//! Links are copied as links. In a tree, pipes, sockets and devices are skipped. An existing file at the destination is
//! overwritten, and an existing directory is merged with the source. Anything that exists where a link or a directory is to
//! be created is an error; what was copied before it stays.

use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use codicil_protocol::normal_path;

use crate::{FileError, read::check_regular};

/// The size of the largest file that is copied through memory.
const SMALL_BYTES: u64 = 64 << 10;

/// What may be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDepth {
    /// One file or link.
    Single,
    /// Also a directory with its contents.
    Tree,
}

/// Copies `source`. Missing parents of the destination are created for a directory only.
pub fn copy(source: &Path, destination: &Path, depth: CopyDepth) -> Result<(), FileError> {
    let kind = fs::symlink_metadata(source)?.file_type();
    match depth {
        _ if !kind.is_dir() => copy_entry(kind, source, destination, SpecialFiles::Refused),
        CopyDepth::Single => Err(FileError::NotRecursive),
        CopyDepth::Tree if is_within(destination, source)? => Err(FileError::IntoItself),
        CopyDepth::Tree => copy_tree(source, destination),
    }
}

/// How pipes, sockets and devices are treated.
#[derive(Clone, Copy)]
enum SpecialFiles {
    Refused,
    Skipped,
}

/// Copies a tree, one directory at a time, so that a deep tree needs neither stack nor descriptors.
fn copy_tree(source: &Path, destination: &Path) -> Result<(), FileError> {
    fs::create_dir_all(destination)?;
    let mut waiting = vec![(source.to_owned(), destination.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let target = to.join(entry.file_name());
            if kind.is_dir() {
                make_directory(&target, source)?;
                waiting.push((entry.path(), target));
            } else {
                copy_entry(kind, &entry.path(), &target, SpecialFiles::Skipped)?;
            }
        }
    }
    Ok(())
}

/// Creates a directory unless it exists. A link back into the source is an error, because every copied directory would
/// then appear again in the source.
fn make_directory(path: &Path, source: &Path) -> Result<(), FileError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            if path.is_symlink() && is_within(path, source)? {
                return Err(FileError::IntoItself);
            }
            Ok(())
        }
        result => Ok(result?),
    }
}

fn copy_entry(kind: FileType, from: &Path, to: &Path, special: SpecialFiles) -> Result<(), FileError> {
    if kind.is_symlink() {
        return Ok(symlink(fs::read_link(from)?, to)?);
    }
    if kind.is_file() {
        return copy_file(from, to);
    }
    match special {
        SpecialFiles::Refused => Err(FileError::SpecialFile),
        SpecialFiles::Skipped => Ok(()),
    }
}

/// Copies contents and mode. A file that is copied onto itself is not changed.
fn copy_file(from: &Path, to: &Path) -> Result<(), FileError> {
    let (mut source, found) = open_checked(from, OpenOptions::new().read(true))?;
    let mode = found.permissions().mode();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut target = match options.open(to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match open_existing(to, &found)? {
            Some(target) => target,
            None => return Ok(()),
        },
        target => target?,
    };
    copy_contents(&mut source, &mut target, found.len())?;
    // An overwritten file, or a new one under a umask, has another mode. Setting a mode writes to the disk, so it is
    // compared first.
    if target.metadata()?.permissions() != found.permissions() {
        target.set_permissions(found.permissions())?;
    }
    Ok(())
}

/// Opens and empties an existing file at the destination. Returns `None` if it is the source itself.
fn open_existing(to: &Path, source: &Metadata) -> Result<Option<File>, FileError> {
    // Checked before opening as well, because opening some devices has an effect.
    if fs::metadata(to).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(FileError::SpecialFile);
    }
    // A dangling link exists, but its target must be created.
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(source.permissions().mode());
    let (target, existing) = open_checked(to, options)?;
    if (existing.dev(), existing.ino()) == (source.dev(), source.ino()) {
        return Ok(None);
    }
    // Some file systems flush a file at once if it was truncated before.
    if existing.len() > 0 {
        target.set_len(0)?;
    }
    Ok(Some(target))
}

/// Opens a regular file without blocking. Returns it with its metadata.
fn open_checked(path: &Path, options: &mut OpenOptions) -> Result<(File, Metadata), FileError> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

/// Copies contents. A small file is copied through memory, which is faster than a system call that copies.
fn copy_contents(source: &mut File, target: &mut File, length: u64) -> io::Result<()> {
    if length == 0 || length > SMALL_BYTES {
        // Files of the kernel claim to be empty and are read to their end too.
        return io::copy(source, target).map(drop);
    }
    let mut contents = vec![0; length as usize];
    let mut filled = 0;
    while let Some(rest) = contents.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    target.write_all(contents.get(..filled).unwrap_or_default())
}

/// Returns whether a destination is a directory or inside it, with links followed.
fn is_within(destination: &Path, directory: &Path) -> io::Result<bool> {
    Ok(resolve(destination)?.starts_with(directory.canonicalize()?))
}

/// Resolves the links of a path whose last components need not exist.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(place) => {
                let place = missing.iter().rev().fold(place, |place, name| place.join(name));
                return Ok(normal_path(&place));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
            return Ok(path.to_owned());
        };
        missing.push(name);
        existing = parent;
    }
}
