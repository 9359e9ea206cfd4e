//! From what is wanted to a directory that has it, or to nothing at all.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    MountPreview, Workspace,
    copy::{FileCopier, FileLister, MountedFile},
    error::{WorkspaceError, io_error},
    fingerprint::fingerprint,
    meter::BudgetMeter,
    mount::{CheckedMount, HostMount, resolve_roots},
    remove::OwnedDirectory,
    walk::{WalkSummary, walk},
};

/// What all mounts together may bring unless said otherwise: 256 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 256 << 20;

/// How many files and directory entries may be looked at unless said otherwise: 100,000.
pub const DEFAULT_MAX_FILES: u64 = 100_000;

/// Choices for a [`Workspace`].
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

    /// Allows mounts from an absolute host path and below. Without any root, nothing can be mounted.
    pub fn allow_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.allowed_roots.push(root.into());
        self
    }

    /// What all mounts together may bring; [`DEFAULT_MAX_BYTES`] if not said.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How many files and directory entries may be looked at; [`DEFAULT_MAX_FILES`] if not said.
    pub fn max_files(mut self, files: u64) -> Self {
        self.max_files = files;
        self
    }

    /// Where the workspace's directory is made; the system's place for temporary files if not said.
    pub fn parent(mut self, parent: impl Into<PathBuf>) -> Self {
        self.parent = Some(parent.into());
        self
    }

    /// Tells what the mounts would bring, under the same rules and budgets, and copies nothing.
    pub async fn preview(&self) -> Result<Vec<MountPreview>, WorkspaceError> {
        self.clone().blocking(|plan, stop| plan.look(stop)).await
    }

    /// Makes the workspace. When this fails, or its future is dropped, nothing is left behind.
    pub async fn create(self) -> Result<Workspace, WorkspaceError> {
        self.blocking(|plan, stop| plan.fill(stop)).await
    }

    async fn blocking<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self, &CancellationToken) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let stop = CancellationToken::new();
        let _on_drop: DropGuard = stop.clone().drop_guard();
        // Ends soon after this future is dropped, and then drops what it made.
        let working = tokio::task::spawn_blocking(move || work(&self, &stop));
        working.await.unwrap_or_else(|lost| Err(io_error("make", "workspace", std::io::Error::other(lost))))
    }

    fn look(&self, stop: &CancellationToken) -> Result<Vec<MountPreview>, WorkspaceError> {
        let roots = resolve_roots(&self.allowed_roots);
        let mut meter = BudgetMeter::new(self.max_bytes, self.max_files);
        let mut previews = Vec::new();
        for mount in &self.mounts {
            let checked = CheckedMount::new(mount, &roots)?;
            meter.begin(mount.host_path.clone(), mount.max_bytes);
            let mut lister = FileLister::default();
            let walked = walk(&checked, &roots, &mut meter, &mut lister, stop)?;
            previews.push(preview(checked, walked, lister.files));
        }
        Ok(previews)
    }

    fn fill(&self, stop: &CancellationToken) -> Result<Workspace, WorkspaceError> {
        let roots = resolve_roots(&self.allowed_roots);
        // All checks before the first copy.
        let checked = self.mounts.iter().map(|mount| CheckedMount::new(mount, &roots));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let folder = self.folder()?;
        let mut meter = BudgetMeter::new(self.max_bytes, self.max_files);
        let (mut previews, mut digests) = (Vec::new(), Vec::new());
        for mount in checked {
            meter.begin(mount.mount.host_path.clone(), mount.mount.max_bytes);
            let mut copier = FileCopier { root: &folder.0, stop, files: Vec::new(), digests: Vec::new() };
            let walked = walk(&mount, &roots, &mut meter, &mut copier, stop)?;
            digests.extend(copier.digests);
            previews.push(preview(mount, walked, copier.files));
        }
        let files = previews.iter().flat_map(|mount| &mount.files).zip(&digests);
        let fingerprint = fingerprint(&self.mounts, [self.max_bytes, self.max_files], files);
        Ok(Workspace { folder, fingerprint, mounts: previews })
    }

    /// A directory that is open to its owner only, by its path without links.
    fn folder(&self) -> Result<OwnedDirectory, WorkspaceError> {
        let parent = self.parent.clone().unwrap_or_else(std::env::temp_dir);
        let failed = |cause| io_error("create a directory in", &parent, cause);
        let closed = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("workspace-").permissions(closed).tempdir_in(&parent);
        let folder = folder.map_err(failed)?;
        let path = folder.path().canonicalize().map_err(failed)?;
        // From here on it is removed by our own type, which copes with closed directories.
        let _ = folder.keep();
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
        files,
        skipped_links: walked.skipped.links,
        skipped_special: walked.skipped.special,
    }
}
