//! What an agent may do, and who is asked: approval and sandbox policies, shared by threads, turns,
//! `command/exec` and the configuration.
//!
//! Approval policies and sandbox modes are kebab case on the wire, sandbox policies camel case. The other
//! spellings in circulation are read, never written.

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{AbsolutePathBuf, wire};

/// When somebody is asked before the agent acts.
#[wire(open, rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum AskForApproval {
    /// Before everything that is not known to only read.
    #[serde(alias = "unlessTrusted", alias = "unless-trusted", alias = "always")]
    Untrusted,
    /// After the sandbox stopped a command: may it run again without?
    #[serde(alias = "onFailure")]
    OnFailure,
    /// When the agent asks to leave the sandbox.
    #[serde(alias = "onRequest")]
    OnRequest,
    /// Kind by kind: `false` refuses without asking.
    #[experimental("askForApproval.granular")]
    Granular {
        /// Commands that want to leave the sandbox.
        sandbox_approval: bool,
        /// Commands that a rule says to ask about.
        rules: bool,
        #[serde(default)]
        skill_approval: bool,
        /// The agent's requests for more permissions.
        #[serde(default)]
        request_permissions: bool,
        /// Questions of MCP servers.
        mcp_elicitations: bool,
    },
    /// Never; what would need an answer is refused.
    Never,
}

/// Who answers approval requests.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ApprovalsReviewer {
    /// The person, through the client.
    User,
    /// An agent that weighs the risk; its reviews are reported by `item/autoApprovalReview/*`.
    #[serde(alias = "auto_review")]
    GuardianSubagent,
}

/// A [`SandboxPolicy`] by name; the configuration fills in its details.
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

/// A mode by its name, or by a policy of that mode: some clients write here what `turn/start` takes. What else
/// the policy says does not count; the configuration does.
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

/// What commands can reach. Members may be left out: then everything can be read, nothing but the working
/// and temporary directories written, and no network used.
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
    /// The client confines the whole server; the agent is told it may write anywhere.
    #[serde(alias = "external-sandbox")]
    ExternalSandbox {
        /// A word here, where the other policies have a boolean.
        #[serde(default)]
        network_access: NetworkAccess,
    },
    #[serde(alias = "workspace-write")]
    WorkspaceWrite {
        /// Beside the working directory.
        #[serde(default)]
        writable_roots: Vec<AbsolutePathBuf>,
        #[serde(default)]
        read_only_access: ReadOnlyAccess,
        #[serde(default)]
        network_access: bool,
        /// Do not make `$TMPDIR` writable.
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        /// Do not make `/tmp` writable.
        #[serde(default)]
        exclude_slash_tmp: bool,
    },
}

/// What can be read under a policy that restricts writing.
#[wire(open, tag = "type")]
#[derive(Default)]
pub enum ReadOnlyAccess {
    Restricted {
        /// Also what programs need to run at all: the system's libraries and tools.
        #[serde(default = "crate::yes")]
        include_platform_defaults: bool,
        #[serde(default)]
        readable_roots: Vec<AbsolutePathBuf>,
    },
    #[default]
    FullAccess,
}

/// What an external sandbox lets through, so that the agent can be told.
#[wire(open)]
#[derive(Default, Eq)]
pub enum NetworkAccess {
    #[default]
    Restricted,
    Enabled,
}

/// Which page of permission profiles.
#[wire(sparse)]
#[derive(Default)]
pub struct PermissionProfileListParams {
    pub cursor: Option<String>,
    /// Null for all.
    pub limit: Option<u32>,
    /// Whose rules say what is allowed; the server's own directory when left out.
    pub cwd: Option<String>,
}

/// One page of permission profiles.
#[wire]
pub struct PermissionProfileListResponse {
    pub data: Vec<PermissionProfileSummary>,
    pub next_cursor: Option<String>,
}

/// A permission profile: a sandbox policy that goes by a name.
#[wire]
pub struct PermissionProfileSummary {
    /// What `permissions` takes.
    pub id: String,
    pub description: Option<String>,
    /// Whether an administrator lets it be chosen.
    pub allowed: bool,
}

/// The profile that a thread's sandbox policy comes from.
#[wire]
pub struct ActivePermissionProfile {
    pub id: String,
    /// Null for the built-in ones.
    pub extends: Option<String>,
}
