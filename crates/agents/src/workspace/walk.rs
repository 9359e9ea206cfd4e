//! Walks a mount file by file, always in the same order.

use std::{
    ffi::OsString,
    fs::File,
    io::ErrorKind,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::Dir,
};
use tokio_util::sync::CancellationToken;

use super::{
    budget::BudgetMeter,
    error::{SecurityError, WorkspaceError, io_error},
    mount::{CheckedMount, SymlinkPolicy, is_within},
    open::{FileKind, OpenedFile, identity, kind_of, open_canonical, open_entry},
};

/// Deeper than any real tree, and low enough for one file descriptor per level.
const MAX_DEPTH: usize = 128;

/// Receives the files of a mount.
pub(super) trait FileSink {
    /// Processes a file whose path in the workspace is `target`, and counts its bytes.
    fn file(&mut self, target: &Path, file: File, meter: &mut BudgetMeter) -> Result<(), WorkspaceError>;
}

/// Numbers of entries that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkippedFiles {
    pub links: u64,
    pub special: u64,
}

/// The result of a walk.
#[derive(Debug)]
pub(super) struct WalkSummary {
    pub is_directory: bool,
    pub skipped: SkippedFiles,
}

/// Walks one mount.
pub(super) fn walk(
    mount: &CheckedMount<'_>,
    roots: &[PathBuf],
    meter: &mut BudgetMeter,
    sink: &mut dyn FileSink,
    stop: &CancellationToken,
) -> Result<WalkSummary, WorkspaceError> {
    let mut walk =
        MountWalk { mount, roots, meter, sink, stop, skipped: SkippedFiles::default(), above: Vec::new() };
    let opened = open_canonical(&mount.real)?;
    let is_directory = matches!(opened, OpenedFile::Directory(_));
    match opened {
        OpenedFile::Directory(directory) => walk.directory(directory, Path::new(""), &mount.real)?,
        OpenedFile::File(file) => walk.single(file)?,
        OpenedFile::Special => walk.skipped.special += 1,
    }
    Ok(WalkSummary { is_directory, skipped: walk.skipped })
}

struct MountWalk<'w, 'm> {
    mount: &'w CheckedMount<'m>,
    roots: &'w [PathBuf],
    meter: &'w mut BudgetMeter,
    sink: &'w mut dyn FileSink,
    stop: &'w CancellationToken,
    skipped: SkippedFiles,
    /// The identities of the enclosing directories. Entering one of them again is a cycle.
    above: Vec<(u64, u64)>,
}

impl MountWalk<'_, '_> {
    /// Processes a mount that is a file: the mount path names the file itself.
    fn single(&mut self, file: File) -> Result<(), WorkspaceError> {
        let name = self.mount.real.file_name().map(PathBuf::from).unwrap_or_default();
        // Mounted at the workspace itself, the file keeps its name.
        let is_root = self.mount.target.as_os_str().is_empty();
        let target = if is_root { name.clone() } else { self.mount.target.clone() };
        self.meter.add_entry()?;
        if !self.mount.includes(&name) {
            return Ok(());
        }
        self.sink.file(&target, file, self.meter)
    }

    /// Processes a directory. `relative` is its path below the mount, `real` its host path without links.
    fn directory(&mut self, directory: OwnedFd, relative: &Path, real: &Path) -> Result<(), WorkspaceError> {
        if self.above.len() >= MAX_DEPTH {
            return Err(SecurityError::TooDeep { path: real.to_owned() }.into());
        }
        let identity = identity(&directory, real)?;
        if self.above.contains(&identity) {
            self.skipped.links += 1;
            return Ok(());
        }
        self.above.push(identity);
        for name in self.names(&directory, real)? {
            self.entry(&directory, Path::new(&name), &relative.join(&name), &real.join(&name))?;
        }
        self.above.pop();
        Ok(())
    }

    /// Returns the names in a directory, sorted so that the same tree always yields the same sequence.
    fn names(&mut self, directory: &OwnedFd, real: &Path) -> Result<Vec<OsString>, WorkspaceError> {
        let failed = |errno| io_error("read", real, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                self.meter.add_entry()?;
                names.push(OsString::from_vec(name));
            }
        }
        names.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        Ok(names)
    }

    fn entry(
        &mut self,
        directory: impl AsFd,
        name: &Path,
        relative: &Path,
        real: &Path,
    ) -> Result<(), WorkspaceError> {
        if self.stop.is_cancelled() {
            return Err(WorkspaceError::Abandoned);
        }
        if self.mount.excludes(relative) {
            return Ok(());
        }
        // An entry that was removed since it was listed is not an error.
        let Some(kind) = kind_of(&directory, name).map_err(|cause| io_error("look at", real, cause))? else {
            return Ok(());
        };
        match kind {
            FileKind::File if !self.mount.includes(relative) => Ok(()),
            FileKind::File | FileKind::Directory => match open_entry(directory, name, real) {
                Err(WorkspaceError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Ok(()),
                opened => self.opened(opened?, relative, real),
            },
            FileKind::Link => self.link(relative, real),
            FileKind::Special => {
                self.skipped.special += 1;
                Ok(())
            }
        }
    }

    fn opened(&mut self, opened: OpenedFile, relative: &Path, real: &Path) -> Result<(), WorkspaceError> {
        match opened {
            OpenedFile::Directory(directory) => self.directory(directory, relative, real),
            OpenedFile::File(file) if self.mount.includes(relative) => {
                self.sink.file(&self.mount.target.join(relative), file, self.meter)
            }
            OpenedFile::File(_) => Ok(()),
            OpenedFile::Special => {
                self.skipped.special += 1;
                Ok(())
            }
        }
    }

    fn link(&mut self, relative: &Path, real: &Path) -> Result<(), WorkspaceError> {
        match self.mount.mount.symlinks {
            SymlinkPolicy::Skip => self.skipped.links += 1,
            SymlinkPolicy::Refuse => return Err(SecurityError::Link { path: real.to_owned() }.into()),
            SymlinkPolicy::Follow => match real.canonicalize() {
                Ok(target) if is_within(&target, self.roots) => {
                    // Opened without following links, so that it is still the target that was checked.
                    let opened = open_canonical(&target)?;
                    return self.opened(opened, relative, &target);
                }
                Ok(_) => return Err(SecurityError::LinkEscapes { path: real.to_owned() }.into()),
                // A dangling link, or a cycle.
                Err(_) => self.skipped.links += 1,
            },
        }
        Ok(())
    }
}
