//! What the tools of a turn may read and write: one answer for commands, patches and images.

use std::{path::PathBuf, sync::Arc};

use codicil_command::Access;
use codicil_protocol::SandboxPolicy;
use codicil_sandbox::{AccessRequest, FileAccess, Grants, RootCache, SandboxError};

use super::TurnTools;
use crate::world::World;

/// Everything that an [`AccessRequest`] is made of, owned, so that it can be used where blocking is allowed.
pub(super) struct AccessSources {
    policy: SandboxPolicy,
    workspace: PathBuf,
    grants: Grants,
    roots: RootCache,
    world: Arc<World>,
}

impl AccessSources {
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
}

impl TurnTools {
    /// The thread's settings, with what was granted on top. Nothing here comes from the arguments of a tool.
    pub(super) fn access_sources(&self, granted: Access) -> AccessSources {
        AccessSources {
            policy: self.settings.sandbox.clone(),
            workspace: self.settings.cwd.clone(),
            grants: Grants { readable: granted.read, writable: granted.write, network: granted.network },
            roots: self.kit.roots.clone(),
            world: self.kit.world.clone(),
        }
    }
}
