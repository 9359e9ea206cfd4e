//! The files that a thread may read and write: one answer for commands, patches, images and instructions.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_policy::AccessGrant;
use codicil_protocol::{AbsolutePathBuf, SandboxPolicy};
use codicil_sandbox::{AccessRequest, FileAccess, RootCache, SandboxError, SandboxGrants};

use crate::{engine_context::EngineContext, settings::TurnSettings, tools::ThreadTools};

/// The owned parts of an [`AccessRequest`], for use on a thread that may block. They come from the thread's settings and
/// from granted permissions, never from the arguments of a tool.
pub(crate) struct AccessSources {
    policy: SandboxPolicy,
    workspace: PathBuf,
    grants: SandboxGrants,
    roots: RootCache,
    engine: Arc<EngineContext>,
}

impl AccessSources {
    /// Combines the settings of a thread with granted permissions.
    pub fn new(settings: &TurnSettings, tools: &ThreadTools, granted: AccessGrant) -> Self {
        Self {
            policy: policy_with_roots(settings),
            workspace: settings.cwd.clone(),
            grants: SandboxGrants {
                readable: granted.read,
                writable: granted.write,
                network: granted.network,
            },
            roots: tools.roots.clone(),
            engine: tools.engine.clone(),
        }
    }

    pub fn request(&self) -> AccessRequest<'_> {
        AccessRequest {
            policy: &self.policy,
            workspace: &self.workspace,
            grants: &self.grants,
            roots: &self.roots,
            server: &self.engine.server_places,
        }
    }

    /// Blocks on the disk.
    pub fn files(&self) -> Result<FileAccess, SandboxError> {
        FileAccess::new(&self.request())
    }

    /// Opens a regular file that commands may read. The path of the open file is checked, so that replacing it by a link
    /// meanwhile has no effect. Blocks on the disk.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = codicil_store::open_regular(path)?;
        let place = real_path(&file)?;
        if !self.files().map_err(io::Error::other)?.can_read(&place) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the sandbox does not let it be read",
            ));
        }
        Ok(file)
    }

    /// Opens a file with project instructions. A file that is not a link may be read whatever the policy is: the project's
    /// root may be above the workspace.
    pub fn open_instructions(&self, path: &Path) -> io::Result<File> {
        let file = codicil_store::open_regular(path)?;
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let is_itself = folder
            .zip(path.file_name())
            .is_some_and(|(folder, name)| real_path(&file).is_ok_and(|place| place == folder.join(name)));
        if is_itself { Ok(file) } else { self.open(path) }
    }
}

/// Returns the path of an open file, without links.
#[cfg(target_os = "linux")]
fn real_path(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn real_path(file: &File) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(file)?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}
/// Returns the policy of a thread. A sandbox that writes to the workspace writes to all its directories.
fn policy_with_roots(settings: &TurnSettings) -> SandboxPolicy {
    let mut policy = settings.sandbox.clone();
    if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &mut policy {
        writable_roots.extend(settings.workspace_roots.iter().filter_map(AbsolutePathBuf::new));
    }
    policy
}
