//! Approval and sandbox policies, shared by threads, turns, `command/exec` and the configuration.
//!
//! Approval policies and sandbox modes are kebab case on the wire, sandbox policies camel case. Other spellings are read
//! but not written.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{AbsolutePathBuf, wire};

/// When an approval is needed before the agent acts.
#[wire(open, rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum AskForApproval {
    /// Before every command that is not known to be read-only.
    #[serde(alias = "unlessTrusted", alias = "unless-trusted", alias = "always")]
    Untrusted,
    /// When the sandbox has blocked a command, before it is run again without the sandbox.
    #[serde(alias = "onFailure")]
    OnFailure,
    /// When the agent requests to run a command without the sandbox.
    #[serde(alias = "onRequest")]
    OnRequest,
    /// By kind of request. `false` declines without asking.
    #[experimental("askForApproval.granular")]
    Granular {
        /// Commands without the sandbox.
        sandbox_approval: bool,
        /// Commands for which a rule requires approval.
        rules: bool,
        #[serde(default)]
        skill_approval: bool,
        /// Requests of the agent for more permissions.
        #[serde(default)]
        request_permissions: bool,
        /// Elicitations of MCP servers.
        mcp_elicitations: bool,
    },
    /// Never. Actions that need an approval are declined.
    Never,
}

/// Who answers approval requests.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ApprovalsReviewer {
    /// The user, through the client.
    User,
    /// An agent that assesses the risk. Its reviews are reported by `item/autoApprovalReview/*`.
    #[serde(alias = "auto_review")]
    GuardianSubagent,
}

/// The name of a [`SandboxPolicy`]. Its details come from the configuration.
#[wire(open, rename_all = "kebab-case")]
#[derive(Eq)]
pub enum SandboxMode {
    #[serde(alias = "readOnly")]
    ReadOnly,
    #[serde(alias = "workspaceWrite")]
    WorkspaceWrite,
    #[serde(alias = "dangerFullAccess")]
    DangerFullAccess,
}

/// Reads a mode, or the mode of a policy: some clients send the policy that `turn/start` takes. The details of the policy
/// are ignored in favour of the configuration.
pub(crate) fn mode_or_policy<'de, D>(from: D) -> Result<Option<SandboxMode>, D::Error>
where
    D: Deserializer<'de>,
{
    let mode = match Option::<Value>::deserialize(from)? {
        None => return Ok(None),
        Some(Value::Object(mut policy)) => {
            policy.remove("type").ok_or_else(|| D::Error::missing_field("type"))?
        }
        Some(mode) => mode,
    };
    SandboxMode::deserialize(mode).map(Some).map_err(D::Error::custom)
}

/// What commands can access. By default everything can be read, only the working and temporary directories can be written,
/// and there is no network access.
#[wire(open, tag = "type")]
pub enum SandboxPolicy {
    /// No sandbox.
    #[serde(alias = "danger-full-access")]
    DangerFullAccess,
    #[serde(alias = "read-only")]
    ReadOnly {
        #[serde(default)]
        access: ReadOnlyAccess,
        #[serde(default)]
        network_access: bool,
    },
    /// The client runs the whole server in a sandbox. The agent is informed that it may write everywhere.
    #[serde(alias = "external-sandbox")]
    ExternalSandbox {
        /// A string here, unlike in the other policies.
        #[serde(default)]
        network_access: NetworkAccess,
    },
    #[serde(alias = "workspace-write")]
    WorkspaceWrite {
        /// Writable directories in addition to the working directory.
        #[serde(default)]
        writable_roots: Vec<AbsolutePathBuf>,
        #[serde(default)]
        read_only_access: ReadOnlyAccess,
        #[serde(default)]
        network_access: bool,
        /// Makes `$TMPDIR` read-only.
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        /// Makes `/tmp` read-only.
        #[serde(default)]
        exclude_slash_tmp: bool,
    },
}

/// What can be read under a policy that restricts writing.
#[wire(open, tag = "type")]
#[derive(Default)]
pub enum ReadOnlyAccess {
    Restricted {
        /// Includes what programs need to run: system libraries and tools.
        #[serde(default = "crate::yes")]
        include_platform_defaults: bool,
        #[serde(default)]
        readable_roots: Vec<AbsolutePathBuf>,
    },
    #[default]
    FullAccess,
}

/// The network access of an external sandbox. The agent is informed about it.
#[wire(open)]
#[derive(Default, Eq)]
pub enum NetworkAccess {
    #[default]
    Restricted,
    Enabled,
}

/// Lists permission profiles.
#[wire(sparse)]
#[derive(Default)]
pub struct PermissionProfileListParams {
    pub cursor: Option<String>,
    /// The page size. Absent: all.
    pub limit: Option<u32>,
    /// The directory whose requirements apply. Defaults to the server's own.
    pub cwd: Option<String>,
}

/// One page of permission profiles.
#[wire]
pub struct PermissionProfileListResponse {
    pub data: Vec<PermissionProfileSummary>,
    pub next_cursor: Option<String>,
}

/// A permission profile: a named sandbox policy.
#[wire]
pub struct PermissionProfileSummary {
    /// The value for `permissions`.
    pub id: String,
    pub description: Option<String>,
    /// Whether the requirements of an administrator allow the profile.
    pub allowed: bool,
}

/// The profile from which the sandbox policy of a thread comes.
#[wire]
pub struct ActivePermissionProfile {
    pub id: String,
    /// Null for built-in profiles.
    pub extends: Option<String>,
}
