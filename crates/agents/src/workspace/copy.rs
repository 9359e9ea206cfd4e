//! Copies the files of a mount, or only lists them.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    budget::BudgetMeter,
    error::{WorkspaceError, io_error},
    walk::FileSink,
};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// A file of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedFile {
    /// The path relative to the workspace.
    pub path: PathBuf,
    /// The size. In a preview, the size when it was read.
    pub bytes: u64,
}

/// Copies files into a directory that no other process writes to.
pub(super) struct FileCopier<'c> {
    pub root: &'c Path,
    pub stop: &'c CancellationToken,
    pub files: Vec<MountedFile>,
    /// The digest of each file in `files`.
    pub digests: Vec<FileDigest>,
}

/// The content of a file and whether it is executable.
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
        let (bytes, content) = self.copy_content(&mut file, &mut copy, &shown, meter)?;
        self.files.push(MountedFile { path: shown, bytes });
        self.digests.push(FileDigest { is_executable, content });
        Ok(())
    }
}

impl FileCopier<'_> {
    /// Creates a file. The workspace belongs to the agent: its owner may read and write everything, and execute what
    /// was executable.
    fn create(&self, target: &Path, is_executable: bool) -> Result<File, WorkspaceError> {
        let path = self.root.join(target);
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|cause| self.create_error("create", target, cause))?;
        }
        let mode = if is_executable { 0o700 } else { 0o600 };
        let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        created.map_err(|cause| self.create_error("create", target, cause))
    }

    /// Converts an error. The file or directory of another mount may already exist at the path.
    fn create_error(&self, action: &'static str, target: &Path, cause: std::io::Error) -> WorkspaceError {
        match cause.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                WorkspaceError::Collision { path: target.to_owned() }
            }
            _ => io_error(action, target, cause),
        }
    }

    /// Copies the content and counts the bytes read, not the reported size: the file may grow meanwhile.
    fn copy_content(
        &self,
        from: &mut File,
        to: &mut File,
        shown: &Path,
        meter: &mut BudgetMeter,
    ) -> Result<(u64, [u8; 32]), WorkspaceError> {
        let mut buffer = vec![0; CHUNK];
        let mut total = 0;
        let mut digest = Sha256::new();
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
            meter.add_bytes(count as u64)?;
            digest.update(read);
            to.write_all(read).map_err(|cause| io_error("write", shown, cause))?;
        }
    }
}

/// Lists the files that would be copied.
#[derive(Default)]
pub(super) struct FileLister {
    pub files: Vec<MountedFile>,
}

impl FileSink for FileLister {
    fn file(&mut self, target: &Path, file: File, meter: &mut BudgetMeter) -> Result<(), WorkspaceError> {
        let bytes = file.metadata().map_err(|cause| io_error("look at", target, cause))?.len();
        meter.add_bytes(bytes)?;
        self.files.push(MountedFile { path: target.to_owned(), bytes });
        Ok(())
    }
}
