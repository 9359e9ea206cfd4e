//! Going through a mount, file by file, always in the same order.

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
    error::{SecurityError, WorkspaceError, io_error},
    meter::Meter,
    mount::{Checked, Symlinks, is_within},
    open::{Kind, Opened, identity, kind_of, open_canonical, open_entry},
};

/// Deeper than any real tree, and shallow enough for one descriptor a level.
const MAX_DEPTH: usize = 128;

/// What is done with each file that a mount brings.
pub(super) trait Sink {
    /// Takes a file that goes to `target` in the workspace, and counts its bytes.
    fn file(&mut self, target: &Path, file: File, meter: &mut Meter) -> Result<(), WorkspaceError>;
}

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    pub links: u64,
    pub special: u64,
}

/// Whether a mount was a directory, and what it did not bring.
#[derive(Debug)]
pub(super) struct Walked {
    pub is_directory: bool,
    pub skipped: Skipped,
}

/// Goes through one mount.
pub(super) fn walk(
    mount: &Checked<'_>,
    roots: &[PathBuf],
    meter: &mut Meter,
    sink: &mut dyn Sink,
    stop: &CancellationToken,
) -> Result<Walked, WorkspaceError> {
    let mut walk = Walk { mount, roots, meter, sink, stop, skipped: Skipped::default(), above: Vec::new() };
    let opened = open_canonical(&mount.real)?;
    let is_directory = matches!(opened, Opened::Directory(_));
    match opened {
        Opened::Directory(directory) => walk.directory(directory, Path::new(""), &mount.real)?,
        Opened::File(file) => walk.single(file)?,
        Opened::Special => walk.skipped.special += 1,
    }
    Ok(Walked { is_directory, skipped: walk.skipped })
}

struct Walk<'w, 'm> {
    mount: &'w Checked<'m>,
    roots: &'w [PathBuf],
    meter: &'w mut Meter,
    sink: &'w mut dyn Sink,
    stop: &'w CancellationToken,
    skipped: Skipped,
    /// The directories that we are in: entering one again is a circle.
    above: Vec<(u64, u64)>,
}

impl Walk<'_, '_> {
    /// A mount that is a file: the mount path names the file itself.
    fn single(&mut self, file: File) -> Result<(), WorkspaceError> {
        let name = self.mount.real.file_name().map(PathBuf::from).unwrap_or_default();
        // Mounted at the workspace itself, it keeps its name.
        let is_root = self.mount.target.as_os_str().is_empty();
        let target = if is_root { name.clone() } else { self.mount.target.clone() };
        self.meter.entry()?;
        match self.mount.wants(&name) {
            true => self.sink.file(&target, file, self.meter),
            false => Ok(()),
        }
    }

    /// `relative` is the place below the mount, `real` the host's path without links.
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
            let (relative, real) = (relative.join(&name), real.join(&name));
            self.entry(&directory, Path::new(&name), &relative, &real)?;
        }
        self.above.pop();
        Ok(())
    }

    /// The names in a directory, sorted, so that the same tree is always the same sequence.
    fn names(&mut self, directory: &OwnedFd, real: &Path) -> Result<Vec<OsString>, WorkspaceError> {
        let failed = |errno| io_error("read", real, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(directory).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                self.meter.entry()?;
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
        // What has gone since it was listed is not there; that is no error in a tree that lives.
        let Some(kind) = kind_of(&directory, name).map_err(|cause| io_error("look at", real, cause))? else {
            return Ok(());
        };
        match kind {
            Kind::File if !self.mount.wants(relative) => Ok(()),
            Kind::File | Kind::Directory => match open_entry(directory, name, real) {
                Err(WorkspaceError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Ok(()),
                opened => self.opened(opened?, relative, real),
            },
            Kind::Link => self.link(relative, real),
            Kind::Special => {
                self.skipped.special += 1;
                Ok(())
            }
        }
    }

    fn opened(&mut self, opened: Opened, relative: &Path, real: &Path) -> Result<(), WorkspaceError> {
        match opened {
            Opened::Directory(directory) => self.directory(directory, relative, real),
            Opened::File(file) if self.mount.wants(relative) => {
                self.sink.file(&self.mount.target.join(relative), file, self.meter)
            }
            Opened::File(_) => Ok(()),
            Opened::Special => {
                self.skipped.special += 1;
                Ok(())
            }
        }
    }

    fn link(&mut self, relative: &Path, real: &Path) -> Result<(), WorkspaceError> {
        match self.mount.mount.symlinks {
            Symlinks::Skip => self.skipped.links += 1,
            Symlinks::Refuse => return Err(SecurityError::Link { path: real.to_owned() }.into()),
            Symlinks::Follow => match real.canonicalize() {
                Ok(target) if is_within(&target, self.roots) => {
                    // Opened without following links, so that it is still what was just compared.
                    let opened = open_canonical(&target)?;
                    return self.opened(opened, relative, &target);
                }
                Ok(_) => return Err(SecurityError::LinkEscapes { path: real.to_owned() }.into()),
                // It leads nowhere, or in a circle.
                Err(_) => self.skipped.links += 1,
            },
        }
        Ok(())
    }
}
