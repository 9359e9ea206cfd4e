//! Permissions beyond the sandbox, as a model requests them for a command.

use std::path::Path;

use codicil_patch::{DiskFiles, FollowLinks, ReadFiles};
use codicil_policy::{AccessGrant, SandboxPermissions};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::{
    TurnTools,
    schema::{boolean, object, string, strings},
};

/// The arguments about permissions that every tool that runs commands has.
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

/// Permissions as a model writes them. Paths may be relative.
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
    /// Resolves links in the paths. The user sees and grants the real folder, so a link that is put in its place later
    /// opens nothing else.
    pub(in crate::tools) async fn resolve(&self, turn: &TurnTools) -> AccessGrant {
        let access = self.unresolved(turn);
        let real =
            |path: &Path| DiskFiles.resolve(path, FollowLinks::Links).unwrap_or_else(|_| path.to_owned());
        // The error is a panic; nothing is requested then.
        tokio::task::spawn_blocking(move || access.resolved(real)).await.unwrap_or_default()
    }

    fn unresolved(&self, turn: &TurnTools) -> AccessGrant {
        let files = self.file_system.as_ref();
        let paths = |paths: Option<&Vec<String>>| {
            paths.into_iter().flatten().map(|path| turn.path(path)).collect::<Vec<_>>()
        };
        AccessGrant {
            network: self.network.as_ref().and_then(|network| network.enabled).unwrap_or(false),
            read: paths(files.and_then(|files| files.read.as_ref())),
            write: paths(files.and_then(|files| files.write.as_ref())),
        }
    }
}

impl EscalationArguments {
    pub async fn permissions(&self, turn: &TurnTools) -> SandboxPermissions {
        match (self.sandbox_permissions, &self.additional_permissions) {
            (Some(SandboxChoice::RequireEscalated), _) => SandboxPermissions::RequireEscalated,
            (Some(SandboxChoice::WithAdditionalPermissions), Some(more)) => {
                SandboxPermissions::WithAdditional(more.resolve(turn).await)
            }
            _ => SandboxPermissions::UseDefault,
        }
    }
}

/// Adds the schema of [`EscalationArguments`] to the properties of a tool. `allow_additional` says whether a command may
/// request single permissions instead of leaving the sandbox altogether.
pub(super) fn add_escalation_schema(properties: &mut Value, allow_additional: bool) {
    let Some(properties) = properties.as_object_mut() else { return };
    let choices = if allow_additional {
        "`use_default`, `require_escalated`, or `with_additional_permissions`"
    } else {
        "`use_default` or `require_escalated`"
    };
    let modes =
        format!("How the command is to be sandboxed: {choices}. The user is asked when it needs more.");
    properties.insert("sandbox_permissions".to_owned(), string(&modes));
    properties.insert(
        "justification".to_owned(),
        string("With `require_escalated`: one sentence that asks the user, and says why it is needed."),
    );
    properties.insert(
        "prefix_rule".to_owned(),
        strings(
            "With `require_escalated`: the first words of commands like this one, as a rule that the user \
             may agree to for the future. For example [\"git\", \"pull\"].",
        ),
    );
    if allow_additional {
        properties.insert("additional_permissions".to_owned(), additional_permissions_schema());
    }
}

/// The schema of [`AdditionalPermissions`].
pub(in crate::tools) fn additional_permissions_schema() -> Value {
    object(
        json!({
            "network": object(json!({ "enabled": boolean("Whether the network is needed.") }), &[]),
            "file_system": object(
                json!({
                    "read": strings("Files and folders to read."),
                    "write": strings("Files and folders to write."),
                }),
                &[],
            ),
        }),
        &[],
    )
}
