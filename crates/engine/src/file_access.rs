//! What may be read and written in the name of a thread: one answer for commands, patches, images and instructions.

#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_policy::AccessGrant;
use codicil_protocol::SandboxPolicy;
use codicil_sandbox::{AccessRequest, FileAccess, RootCache, SandboxError, SandboxGrants};

use crate::{settings::TurnSettings, tools::ThreadTools, world::EngineContext};

/// Everything that an [`AccessRequest`] is made of, owned, so that it can be used where blocking is allowed. All of it
/// comes from the thread's settings and from what people granted; nothing from the arguments of a tool.
pub(crate) struct AccessSources {
    policy: SandboxPolicy,
    workspace: PathBuf,
    grants: SandboxGrants,
    roots: RootCache,
    world: Arc<EngineContext>,
}

impl AccessSources {
    /// The settings of a thread, with what was granted on top.
    pub fn new(settings: &TurnSettings, kit: &ThreadTools, granted: AccessGrant) -> Self {
        Self {
            policy: settings.sandbox.clone(),
            workspace: settings.cwd.clone(),
            grants: SandboxGrants {
                readable: granted.read,
                writable: granted.write,
                network: granted.network,
            },
            roots: kit.roots.clone(),
            world: kit.world.clone(),
        }
    }

    pub fn request(&self) -> AccessRequest<'_> {
        AccessRequest {
            policy: &self.policy,
            workspace: &self.workspace,
            grants: &self.grants,
            roots: &self.roots,
            server: &self.world.server_places,
        }
    }

    /// Blocks on the disk.
    pub fn files(&self) -> Result<FileAccess, SandboxError> {
        FileAccess::new(&self.request())
    }

    /// Opens a regular file that commands may read. The open file is asked where it is, so that a link that is put in
    /// its place meanwhile opens nothing. Blocks on the disk.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = codicil_store::open_regular(path)?;
        let place = real_path(&file)?;
        match self.files().map_err(io::Error::other)?.can_read(&place) {
            true => Ok(file),
            false => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "the sandbox does not let it be read"))
            }
        }
    }

    /// Opens a file with instructions. One that is no link lies where it was looked for, which is fine whatever the
    /// policy says of reading: the project's folder may be above the workspace.
    pub fn open_instructions(&self, path: &Path) -> io::Result<File> {
        let file = codicil_store::open_regular(path)?;
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let is_itself = folder
            .zip(path.file_name())
            .is_some_and(|(folder, name)| real_path(&file).is_ok_and(|place| place == folder.join(name)));
        if is_itself { Ok(file) } else { self.open(path) }
    }
}

/// Where an open file is, free of links.
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
