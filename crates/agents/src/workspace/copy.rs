//! The two things that are done with files: copying them, and only looking.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    error::{WorkspaceError, io_error},
    meter::BudgetMeter,
    walk::FileSink,
};

/// What is read at a time.
const CHUNK: usize = 64 << 10;

/// A file that a mount brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedFile {
    /// Where it is in the workspace, relative to its root.
    pub path: PathBuf,
    /// How large it is. In a preview, how large it was when looked at.
    pub bytes: u64,
}

/// Copies files into a directory that nobody else writes to.
pub(super) struct FileCopier<'c> {
    pub root: &'c Path,
    pub stop: &'c CancellationToken,
    pub files: Vec<MountedFile>,
    /// Beside `files`: what each of them contains.
    pub digests: Vec<FileDigest>,
}

/// What a file is, apart from its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileDigest {
    pub is_executable: bool,
    pub content: [u8; 32],
}

impl FileSink for FileCopier<'_> {
    fn file(&mut self, target: &Path, mut file: File, meter: &mut BudgetMeter) -> Result<(), WorkspaceError> {
        let shown = target.to_owned();
        let mode = file.metadata().map_err(|cause| io_error("look at", &shown, cause))?.permissions().mode();
        let is_executable = mode & 0o111 != 0;
        let mut copy = self.create(target, is_executable)?;
        let (bytes, content) = self.pour(&mut file, &mut copy, &shown, meter)?;
        self.files.push(MountedFile { path: shown, bytes });
        self.digests.push(FileDigest { is_executable, content });
        Ok(())
    }
}

impl FileCopier<'_> {
    /// The workspace is the agent's: its owner may read and write everything, and run what could be run.
    fn create(&self, target: &Path, is_executable: bool) -> Result<File, WorkspaceError> {
        let path = self.root.join(target);
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|cause| self.refused("create", target, cause))?;
        }
        let mode = if is_executable { 0o700 } else { 0o600 };
        let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        created.map_err(|cause| self.refused("create", target, cause))
    }

    /// One mount's file may stand where another's directory, or the same file, should be.
    fn refused(&self, action: &'static str, target: &Path, cause: std::io::Error) -> WorkspaceError {
        match cause.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                WorkspaceError::Collision { path: target.to_owned() }
            }
            _ => io_error(action, target, cause),
        }
    }

    /// Counts what is read, not what the file was said to hold: it may grow meanwhile.
    fn pour(
        &self,
        from: &mut File,
        to: &mut File,
        shown: &Path,
        meter: &mut BudgetMeter,
    ) -> Result<(u64, [u8; 32]), WorkspaceError> {
        let (mut buffer, mut total, mut digest) = (vec![0; CHUNK], 0, Sha256::new());
        loop {
            if self.stop.is_cancelled() {
                return Err(WorkspaceError::Abandoned);
            }
            let count = match from.read(&mut buffer) {
                Ok(0) => return Ok((total, digest.finalize().into())),
                Ok(count) => count,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => return Err(io_error("read", shown, cause)),
            };
            let read = buffer.get(..count).unwrap_or_default();
            total += count as u64;
            meter.bytes(count as u64)?;
            digest.update(read);
            to.write_all(read).map_err(|cause| io_error("write", shown, cause))?;
        }
    }
}

/// Notes what would be copied.
#[derive(Default)]
pub(super) struct FileLister {
    pub files: Vec<MountedFile>,
}

impl FileSink for FileLister {
    fn file(&mut self, target: &Path, file: File, meter: &mut BudgetMeter) -> Result<(), WorkspaceError> {
        let bytes = file.metadata().map_err(|cause| io_error("look at", target, cause))?.len();
        meter.bytes(bytes)?;
        self.files.push(MountedFile { path: target.to_owned(), bytes });
        Ok(())
    }
}
