//! Approval and sandbox policies, shared by threads, turns, `command/exec` and the configuration.
//!
//! Approval policies and sandbox modes are kebab case on the wire, sandbox policies camel case. Other spellings are read
//! but not written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::{AbsolutePathBuf, Inspect, InspectFindings, LegacyAppPathString, wire};

/// When an approval is needed before the agent acts.
#[wire(open, rename_all = "kebab-case", rename_all_fields = "snake_case")]
pub enum AskForApproval {
    /// Before every command that is not known to be read-only.
    #[serde(alias = "unlessTrusted", alias = "unless-trusted", alias = "always")]
    Untrusted,
    /// When the sandbox has blocked a command, before it is run again without the sandbox.
    #[serde(alias = "onFailure")]
    #[until("0.118")]
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
#[wire(open, rename_all = "snake_case", later_variants = "LaterApprovalsReviewer")]
#[derive(Eq)]
pub enum ApprovalsReviewer {
    /// The user, through the client.
    User,
    /// An agent that assesses the risk. Its reviews are reported by `item/autoApprovalReview/*`.
    #[serde(alias = "auto_review")]
    GuardianSubagent,
}

impl ApprovalsReviewer {
    /// Returns the form that is written to clients of the 0.166 generation.
    pub fn into_later(self) -> Self {
        match self {
            Self::GuardianSubagent => Self::Unrecognized("auto_review".to_owned()),
            reviewer => reviewer,
        }
    }
}

/// The name of [`ApprovalsReviewer::GuardianSubagent`] in later clients.
#[wire(rename_all = "snake_case")]
pub enum LaterApprovalsReviewer {
    AutoReview,
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

/// The sandbox of a thread in a request: a mode, whose details come from the configuration, or a whole policy. The
/// published schema has the mode only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ThreadSandbox {
    Mode(SandboxMode),
    Policy(SandboxPolicy),
}

impl From<SandboxMode> for ThreadSandbox {
    fn from(mode: SandboxMode) -> Self {
        Self::Mode(mode)
    }
}

impl From<SandboxPolicy> for ThreadSandbox {
    fn from(policy: SandboxPolicy) -> Self {
        Self::Policy(policy)
    }
}

/// Reads a policy that names nothing but its type as the mode of that name.
impl<'de> Deserialize<'de> for ThreadSandbox {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let Some(members) = value.as_object() else {
            return SandboxMode::deserialize(value).map(Self::Mode).map_err(D::Error::custom);
        };
        let bare_type = members.get("type").filter(|_| members.len() == 1).cloned();
        match bare_type.map(SandboxMode::deserialize) {
            Some(Ok(mode)) if !matches!(mode, SandboxMode::Unrecognized(_)) => Ok(Self::Mode(mode)),
            _ => SandboxPolicy::deserialize(value).map(Self::Policy).map_err(D::Error::custom),
        }
    }
}

impl Inspect for ThreadSandbox {
    fn inspect(&self, findings: &mut InspectFindings) {
        match self {
            Self::Mode(mode) => mode.inspect(findings),
            Self::Policy(policy) => policy.inspect(findings),
        }
    }
}

impl JsonSchema for ThreadSandbox {
    fn schema_name() -> Cow<'static, str> {
        SandboxMode::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        SandboxMode::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SandboxMode::json_schema(generator)
    }
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
        #[until("0.118")]
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
        #[until("0.118")]
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

/// A rule about files.
#[wire]
pub struct FileSystemSandboxEntry {
    pub access: FileSystemAccessMode,
    pub path: FileSystemPath,
}

/// What a rule allows.
#[wire(open)]
#[derive(Eq)]
pub enum FileSystemAccessMode {
    Read,
    Write,
    Deny,
}

/// The files of a rule.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum FileSystemPath {
    Path { path: LegacyAppPathString },
    GlobPattern { pattern: String },
    Special { value: FileSystemSpecialPath },
}

/// Files whose path depends on the thread.
#[wire(open, tag = "kind", rename_all = "snake_case")]
pub enum FileSystemSpecialPath {
    Root,
    Minimal,
    ProjectRoots { subpath: Option<LegacyAppPathString> },
    Tmpdir,
    SlashTmp,
    Unknown { path: String, subpath: Option<LegacyAppPathString> },
}
