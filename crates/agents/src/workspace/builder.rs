//! The builder of workspaces.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    MountPreview, Workspace,
    budget::BudgetMeter,
    copy::{FileCopier, FileLister, MountedFile},
    error::{WorkspaceError, io_error},
    fingerprint::fingerprint,
    mount::{CheckedMount, HostMount, resolve_roots},
    remove::OwnedDirectory,
    walk::{WalkSummary, walk},
};

/// The default of [`WorkspaceBuilder::max_bytes`]: 256 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 256 << 20;

/// The default of [`WorkspaceBuilder::max_files`]: 100,000.
pub const DEFAULT_MAX_FILES: u64 = 100_000;

/// Options of a [`Workspace`].
#[derive(Clone, Debug)]
pub struct WorkspaceBuilder {
    mounts: Vec<HostMount>,
    allowed_roots: Vec<PathBuf>,
    max_bytes: u64,
    max_files: u64,
    parent: Option<PathBuf>,
}

impl Default for WorkspaceBuilder {
    fn default() -> Self {
        Self {
            mounts: Vec::new(),
            allowed_roots: Vec::new(),
            max_bytes: DEFAULT_MAX_BYTES,
            max_files: DEFAULT_MAX_FILES,
            parent: None,
        }
    }
}

impl WorkspaceBuilder {
    /// Adds a mount.
    pub fn mount(mut self, mount: HostMount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Allows mounts of an absolute host path and everything below it. Without a root, nothing can be mounted.
    pub fn allow_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.allowed_roots.push(root.into());
        self
    }

    /// Limits the bytes of all mounts together; [`DEFAULT_MAX_BYTES`] by default.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Limits the number of files and directory entries that are read; [`DEFAULT_MAX_FILES`] by default.
    pub fn max_files(mut self, files: u64) -> Self {
        self.max_files = files;
        self
    }

    /// Sets the parent of the workspace's directory; by default the system's directory for temporary files.
    pub fn parent(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Returns what the mounts would copy, under the same rules and budgets, without copying anything.
    pub async fn preview(&self) -> Result<Vec<MountPreview>, WorkspaceError> {
        self.clone().blocking(|builder, stop| builder.list_files(stop)).await
    }

    /// Creates the workspace. If this fails, or its future is dropped, nothing remains.
    pub async fn create(self) -> Result<Workspace, WorkspaceError> {
        self.blocking(|builder, stop| builder.copy_files(stop)).await
    }

    async fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let stop = CancellationToken::new();
        let _on_drop: DropGuard = stop.clone().drop_guard();
        // Not joined when this future is dropped: the task then stops soon and drops its result.
        let working = tokio::task::spawn_blocking(move || work(&self, &stop));
        working.await.unwrap_or_else(|lost| Err(io_error("make", "workspace", std::io::Error::other(lost))))
    }

    fn list_files(&self, stop: &CancellationToken) -> Result<Vec<MountPreview>, WorkspaceError> {
        let roots = resolve_roots(&self.allowed_roots);
        let mut meter = BudgetMeter::new(self.max_bytes, self.max_files);
        let mut previews = Vec::new();
        for mount in &self.mounts {
            let checked = CheckedMount::new(mount, &roots)?;
            meter.begin_mount(mount.host_path.clone(), mount.max_bytes);
            let mut lister = FileLister::default();
            let walked = walk(&checked, &roots, &mut meter, &mut lister, stop)?;
            previews.push(preview(checked, walked, lister.files));
        }
        Ok(previews)
    }

    fn copy_files(&self, stop: &CancellationToken) -> Result<Workspace, WorkspaceError> {
        let roots = resolve_roots(&self.allowed_roots);
        // All checks precede the first copy.
        let checked = self.mounts.iter().map(|mount| CheckedMount::new(mount, &roots));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let directory = self.directory()?;
        let mut meter = BudgetMeter::new(self.max_bytes, self.max_files);
        let mut previews = Vec::new();
        let mut digests = Vec::new();
        for mount in checked {
            meter.begin_mount(mount.mount.host_path.clone(), mount.mount.max_bytes);
            let mut copier = FileCopier { root: &directory.0, stop, files: Vec::new(), digests: Vec::new() };
            let walked = walk(&mount, &roots, &mut meter, &mut copier, stop)?;
            digests.extend(copier.digests);
            previews.push(preview(mount, walked, copier.files));
        }
        let files = previews.iter().flat_map(|mount| &mount.files).zip(&digests);
        let fingerprint = fingerprint(&self.mounts, [self.max_bytes, self.max_files], files);
        let Self { max_bytes, max_files, .. } = *self;
        Ok(Workspace { directory, fingerprint, mounts: previews, max_bytes, max_files })
    }

    /// Creates a directory that only its owner can access. Returns its path with links resolved.
    fn directory(&self) -> Result<OwnedDirectory, WorkspaceError> {
        let parent = self.parent.clone().unwrap_or_else(std::env::temp_dir);
        let failed = |cause| io_error("create a directory in", &parent, cause);
        let closed = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new().prefix("workspace-").permissions(closed).tempdir_in(&parent);
        let directory = directory.map_err(failed)?;
        let path = directory.path().canonicalize().map_err(failed)?;
        // From here on `OwnedDirectory` removes it, since it also handles inaccessible directories.
        let _ = directory.keep();
        Ok(OwnedDirectory(path))
    }
}

fn preview(mount: CheckedMount<'_>, walked: WalkSummary, files: Vec<MountedFile>) -> MountPreview {
    MountPreview {
        host_path: mount.mount.host_path.clone(),
        resolved_host: Path::to_owned(&mount.real),
        mount_path: mount.target,
        is_directory: walked.is_directory,
        bytes: files.iter().map(|file| file.bytes).sum(),
        max_bytes: mount.mount.max_bytes,
        files,
        skipped_links: walked.skipped.links,
        skipped_special: walked.skipped.special,
    }
}
