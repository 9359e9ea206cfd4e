//! What a model may ask for beyond the sandbox, as it writes it.

use std::path::Path;

use codicil_patch::{Disk, Files, Follow};
use codicil_policy::{Access, SandboxPermissions};
use serde::Deserialize;

use super::TurnTools;

/// The members that every tool that runs commands has.
#[derive(Deserialize)]
pub(super) struct Escalation {
    sandbox_permissions: Option<Sandboxing>,
    additional_permissions: Option<Additional>,
    pub justification: Option<String>,
    pub prefix_rule: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sandboxing {
    UseDefault,
    RequireEscalated,
    WithAdditionalPermissions,
}

/// Permissions as a model writes them; paths may be relative.
#[derive(Default, Deserialize)]
pub(in crate::tools) struct Additional {
    network: Option<Network>,
    file_system: Option<FileSystem>,
}

#[derive(Deserialize)]
struct Network {
    enabled: Option<bool>,
}

#[derive(Deserialize)]
struct FileSystem {
    #[serde(default)]
    read: Option<Vec<String>>,
    #[serde(default)]
    write: Option<Vec<String>>,
}

impl Additional {
    /// What is asked for, free of links: people see and grant the folder itself, so a link that is put in its place
    /// later opens nothing.
    pub(in crate::tools) async fn access(&self, tools: &TurnTools) -> Access {
        let access = self.written(tools);
        let real = |path: &Path| Disk.resolve(path, Follow::Links).unwrap_or_else(|_| path.to_owned());
        // Only a panic ends up in the error; then nothing is asked for.
        tokio::task::spawn_blocking(move || access.resolved(real)).await.unwrap_or_default()
    }

    fn written(&self, tools: &TurnTools) -> Access {
        let files = self.file_system.as_ref();
        let paths = |paths: Option<&Vec<String>>| {
            paths.into_iter().flatten().map(|path| tools.path(path)).collect::<Vec<_>>()
        };
        Access {
            network: self.network.as_ref().and_then(|network| network.enabled).unwrap_or(false),
            read: paths(files.and_then(|files| files.read.as_ref())),
            write: paths(files.and_then(|files| files.write.as_ref())),
        }
    }
}

impl Escalation {
    pub async fn permissions(&self, tools: &TurnTools) -> SandboxPermissions {
        match (self.sandbox_permissions, &self.additional_permissions) {
            (Some(Sandboxing::RequireEscalated), _) => SandboxPermissions::RequireEscalated,
            (Some(Sandboxing::WithAdditionalPermissions), Some(more)) => {
                SandboxPermissions::WithAdditional(more.access(tools).await)
            }
            _ => SandboxPermissions::UseDefault,
        }
    }
}
