//! What a model may ask for beyond the sandbox, as it writes it.

use std::path::Path;

use codicil_patch::{DiskFiles, FollowLinks, ReadFiles};
use codicil_policy::{AccessGrant, SandboxPermissions};
use serde::Deserialize;

use super::TurnTools;

/// The members that every tool that runs commands has.
#[derive(Deserialize)]
pub(super) struct EscalationArguments {
    sandbox_permissions: Option<SandboxChoice>,
    additional_permissions: Option<AdditionalPermissions>,
    pub justification: Option<String>,
    pub prefix_rule: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SandboxChoice {
    UseDefault,
    RequireEscalated,
    WithAdditionalPermissions,
}

/// Permissions as a model writes them; paths may be relative.
#[derive(Default, Deserialize)]
pub(in crate::tools) struct AdditionalPermissions {
    network: Option<NetworkArguments>,
    file_system: Option<FileSystemArguments>,
}

#[derive(Deserialize)]
struct NetworkArguments {
    enabled: Option<bool>,
}

#[derive(Deserialize)]
struct FileSystemArguments {
    #[serde(default)]
    read: Option<Vec<String>>,
    #[serde(default)]
    write: Option<Vec<String>>,
}

impl AdditionalPermissions {
    /// What is asked for, free of links: people see and grant the folder itself, so a link that is put in its place
    /// later opens nothing.
    pub(in crate::tools) async fn access(&self, tools: &TurnTools) -> AccessGrant {
        let access = self.written(tools);
        let real =
            |path: &Path| DiskFiles.resolve(path, FollowLinks::Links).unwrap_or_else(|_| path.to_owned());
        // Only a panic ends up in the error; then nothing is asked for.
        tokio::task::spawn_blocking(move || access.resolved(real)).await.unwrap_or_default()
    }

    fn written(&self, tools: &TurnTools) -> AccessGrant {
        let files = self.file_system.as_ref();
        let paths = |paths: Option<&Vec<String>>| {
            paths.into_iter().flatten().map(|path| tools.path(path)).collect::<Vec<_>>()
        };
        AccessGrant {
            network: self.network.as_ref().and_then(|network| network.enabled).unwrap_or(false),
            read: paths(files.and_then(|files| files.read.as_ref())),
            write: paths(files.and_then(|files| files.write.as_ref())),
        }
    }
}

impl EscalationArguments {
    pub async fn permissions(&self, tools: &TurnTools) -> SandboxPermissions {
        match (self.sandbox_permissions, &self.additional_permissions) {
            (Some(SandboxChoice::RequireEscalated), _) => SandboxPermissions::RequireEscalated,
            (Some(SandboxChoice::WithAdditionalPermissions), Some(more)) => {
                SandboxPermissions::WithAdditional(more.access(tools).await)
            }
            _ => SandboxPermissions::UseDefault,
        }
    }
}
