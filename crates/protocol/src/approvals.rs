//! Server requests during a turn: `item/*/requestApproval`, `item/tool/requestUserInput`, and the two approvals of
//! version 1.
//!
//! A request is sent to all subscribers of the thread, and the first response counts. `serverRequest/resolved` is then
//! sent to all of them, also if the request was withdrawn without a response. MCP tool calls are approved by an
//! elicitation, see `elicitation.rs`.

use std::collections::BTreeMap;

use crate::{
    AbsolutePathBuf, CommandAction, FileSystemSandboxEntry, ItemId, ThreadId, TurnId, rpc::RequestId, wire,
};

/// Asks whether a command may run or, with `networkApprovalContext`, whether a running command may reach a host. In the
/// latter case the members that describe the command may be absent.
#[wire]
pub struct CommandExecutionRequestApprovalParams {
    #[since("0.166")]
    pub kind: CommandExecutionApprovalKind,
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Unix milliseconds.
    #[omit]
    #[since("0.166", required)]
    pub started_at_ms: Option<i64>,
    /// Distinguishes several requests about parts of one command.
    #[omit]
    pub approval_id: Option<String>,
    /// Where the command runs: always `local`.
    #[since("0.166")]
    pub environment_id: Option<String>,
    /// The justification given by the agent or by a rule.
    #[omit]
    pub reason: Option<String>,
    #[omit]
    pub network_approval_context: Option<NetworkApprovalContext>,
    /// The command line, quoted for a shell.
    #[omit]
    pub command: Option<String>,
    #[omit]
    pub cwd: Option<String>,
    /// What the command appears to do. For display only.
    #[omit]
    pub command_actions: Option<Vec<CommandAction>>,
    /// The permissions that the command needs beyond the sandbox. Accepting the command grants them.
    #[experimental("item/commandExecution/requestApproval.additionalPermissions")]
    #[omit]
    pub additional_permissions: Option<AdditionalPermissionProfile>,
    /// The command prefix that is allowed from then on if the decision is
    /// [`AcceptWithExecpolicyAmendment`](CommandExecutionApprovalDecision::AcceptWithExecpolicyAmendment).
    #[omit]
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// The rules to choose from for the decision
    /// [`ApplyNetworkPolicyAmendment`](CommandExecutionApprovalDecision::ApplyNetworkPolicyAmendment).
    #[omit]
    pub proposed_network_policy_amendments: Option<Vec<NetworkPolicyAmendment>>,
    /// The decisions to offer. Others are accepted too.
    #[experimental("item/commandExecution/requestApproval.availableDecisions")]
    #[omit]
    pub available_decisions: Option<Vec<CommandExecutionApprovalDecision>>,
}

/// What is to be approved.
#[wire(open)]
#[derive(Default, Eq)]
pub enum CommandExecutionApprovalKind {
    /// A command, or its access to a host.
    #[default]
    Command,
    /// Input to a command that runs outside the sandbox.
    WriteStdin,
}

/// The decision about the command. An error response fails the item; the turn continues.
#[wire]
pub struct CommandExecutionRequestApprovalResponse {
    pub decision: CommandExecutionApprovalDecision,
}

/// Asks whether file changes may be applied. The changes are in the item, which was sent before.
#[wire]
pub struct FileChangeRequestApprovalParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Unix milliseconds.
    #[omit]
    #[since("0.166", required)]
    pub started_at_ms: Option<i64>,
    pub reason: Option<String>,
    /// A directory in which the agent asks to write without further requests.
    pub grant_root: Option<String>,
}

/// The decision about the file changes.
#[wire]
pub struct FileChangeRequestApprovalResponse {
    pub decision: FileChangeApprovalDecision,
}

/// Asks the user one to three short questions of the agent. There is no item for it: `itemId` is the id of the model's
/// call.
#[wire]
pub struct ToolRequestUserInputParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub questions: Vec<ToolRequestUserInputQuestion>,
    /// Whether the turn waits for the answers: always true.
    #[since("0.166", required)]
    pub is_blocking: bool,
    /// The time after which the turn goes on without answers: always null.
    #[since("0.166")]
    pub auto_resolution_ms: Option<u64>,
}

/// The answers by question id. An error response counts as no answers.
#[wire]
pub struct ToolRequestUserInputResponse {
    pub answers: BTreeMap<String, ToolRequestUserInputAnswer>,
}

/// Asks for permissions that later commands need. There is no item for it: `itemId` is the id of the model's call.
#[wire]
pub struct PermissionsRequestApprovalParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Where the permissions are needed: always `local`.
    #[since("0.166")]
    pub environment_id: Option<String>,
    /// The working directory of the turn.
    #[since("0.166", required)]
    pub cwd: String,
    /// Unix milliseconds.
    #[since("0.166", required)]
    pub started_at_ms: i64,
    pub reason: Option<String>,
    pub permissions: RequestPermissionProfile,
}

/// The granted permissions. Absent permissions are denied, permissions that were not requested are ignored. An error
/// response grants nothing.
#[wire]
pub struct PermissionsRequestApprovalResponse {
    pub permissions: GrantedPermissionProfile,
    #[serde(default)]
    pub scope: PermissionGrantScope,
    /// Lets the guardian review every action of the turn from now on. Has no effect.
    #[omit]
    #[since("0.166")]
    pub strict_auto_review: Option<bool>,
}

/// The version 1 form of [`FileChangeRequestApprovalParams`].
#[wire]
pub struct ApplyPatchApprovalParams {
    pub conversation_id: ThreadId,
    pub call_id: String,
    /// The changes by path.
    pub file_changes: BTreeMap<String, FileChange>,
    pub reason: Option<String>,
    /// A directory in which the agent asks to write without further requests.
    pub grant_root: Option<String>,
}

/// The version 1 form of [`FileChangeRequestApprovalResponse`].
#[wire]
pub struct ApplyPatchApprovalResponse {
    pub decision: ReviewDecision,
}

/// The version 1 form of [`CommandExecutionRequestApprovalParams`].
#[wire]
pub struct ExecCommandApprovalParams {
    pub conversation_id: ThreadId,
    pub call_id: String,
    /// Distinguishes several requests about parts of one command.
    pub approval_id: Option<String>,
    /// The program and its arguments. Version 2 has a command line instead.
    pub command: Vec<String>,
    pub cwd: String,
    pub reason: Option<String>,
    pub parsed_cmd: Vec<ParsedCommand>,
}

/// The version 1 form of [`CommandExecutionRequestApprovalResponse`].
#[wire]
pub struct ExecCommandApprovalResponse {
    pub decision: ReviewDecision,
}

/// The possible decisions about a command.
#[wire(open, rename_all_fields = "snake_case")]
pub enum CommandExecutionApprovalDecision {
    /// Accepts this request only.
    #[serde(alias = "approved", alias = "approve", alias = "allow")]
    Accept,
    /// Accepts this request and the same command in the rest of this thread.
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    /// Accepts, without a sandbox, all commands with this prefix from now on, in every thread.
    AcceptWithExecpolicyAmendment { execpolicy_amendment: Vec<String> },
    /// Adds a rule that allows or denies a host.
    ApplyNetworkPolicyAmendment { network_policy_amendment: NetworkPolicyAmendment },
    /// Declines the request. The agent is informed and continues.
    #[serde(alias = "denied", alias = "deny")]
    Decline,
    /// Declines the request and interrupts the turn.
    #[serde(alias = "abort")]
    Cancel,
}

/// The possible decisions about file changes.
#[wire(open)]
#[derive(Eq)]
pub enum FileChangeApprovalDecision {
    /// Accepts this request only.
    #[serde(alias = "approved", alias = "approve", alias = "allow")]
    Accept,
    /// Accepts this request and later changes to the same files in this thread.
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    /// Declines the request. The agent is informed and continues.
    #[serde(alias = "denied", alias = "deny")]
    Decline,
    /// Declines the request and interrupts the turn.
    #[serde(alias = "abort")]
    Cancel,
}

/// The host that a command tries to reach.
#[wire]
pub struct NetworkApprovalContext {
    pub host: String,
    pub protocol: NetworkApprovalProtocol,
}

/// The protocol of a connection, as seen by the proxy.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkApprovalProtocol {
    Http,
    Https,
    Socks5Tcp,
    Socks5Udp,
}

/// A rule about a host, for all later commands.
#[wire]
pub struct NetworkPolicyAmendment {
    pub host: String,
    pub action: NetworkPolicyRuleAction,
}

/// The effect of a network rule.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkPolicyRuleAction {
    Allow,
    Deny,
}

/// The permissions that a command needs beyond the sandbox.
#[wire]
#[derive(Default)]
pub struct AdditionalPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// The permissions that the agent requests for later commands. Unknown fields are rejected, so that a request is not
/// granted on the basis of a partial description.
#[wire(deny_unknown_fields)]
#[derive(Default)]
pub struct RequestPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// The part of a [`RequestPermissionProfile`] that the client grants.
#[wire(sparse)]
#[derive(Default)]
pub struct GrantedPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// Network permissions: all hosts or none.
#[wire]
#[derive(Default)]
pub struct AdditionalNetworkPermissions {
    pub enabled: Option<bool>,
}

/// Files and directories that may be read or written.
#[wire]
#[derive(Default)]
pub struct AdditionalFileSystemPermissions {
    pub read: Option<Vec<AbsolutePathBuf>>,
    pub write: Option<Vec<AbsolutePathBuf>>,
    /// The same permissions as rules. In an answer they take precedence over `read` and `write`.
    #[omit]
    #[since("0.166")]
    pub entries: Option<Vec<FileSystemSandboxEntry>>,
    /// How deep patterns search: never set, because this server asks for no patterns.
    #[omit]
    #[since("0.166")]
    pub glob_scan_max_depth: Option<u32>,
}

/// The lifetime of granted permissions. Commands use them without further requests.
#[wire]
#[derive(Copy, Default, Eq)]
pub enum PermissionGrantScope {
    #[default]
    Turn,
    /// The rest of the thread.
    Session,
}

/// A question of the agent.
#[wire]
pub struct ToolRequestUserInputQuestion {
    pub id: String,
    /// A short heading for the question.
    pub header: String,
    pub question: String,
    /// Whether free text is accepted in addition to the options.
    #[serde(default)]
    pub is_other: bool,
    /// Whether the input must not be displayed.
    #[serde(default)]
    pub is_secret: bool,
    /// Null if the answer is free text.
    pub options: Option<Vec<ToolRequestUserInputOption>>,
}

/// A suggested answer. The label is the value of the answer.
#[wire]
pub struct ToolRequestUserInputOption {
    pub label: String,
    pub description: String,
}

/// The answer to a question: labels of options, or free text.
#[wire]
pub struct ToolRequestUserInputAnswer {
    pub answers: Vec<String>,
}

/// A file change in version 1.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum FileChange {
    /// Adds a file with this content.
    Add { content: String },
    /// Deletes a file that had this content.
    Delete { content: String },
    Update {
        unified_diff: String,
        /// The new path, if the file is renamed.
        move_path: Option<String>,
    },
}

/// A parsed part of a command in version 1.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ParsedCommand {
    Read { cmd: String, name: String, path: String },
    ListFiles { cmd: String, path: Option<String> },
    Search { cmd: String, query: Option<String>, path: Option<String> },
    Unknown { cmd: String },
}

/// The decisions of version 1, for commands and file changes.
#[wire(
    open,
    rename_all = "snake_case",
    rename_all_fields = "snake_case",
    later_variants = "LaterReviewDecision"
)]
pub enum ReviewDecision {
    Approved,
    ApprovedExecpolicyAmendment {
        proposed_execpolicy_amendment: Vec<String>,
    },
    ApprovedForSession,
    NetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment,
    },
    #[until("0.118")]
    Denied,
    /// Denies the request and interrupts the turn.
    Abort,
}

/// The decisions of version 1 that 0.166 has besides the others.
#[wire(rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum LaterReviewDecision {
    ApprovedMcpPolicyAmendment,
    Denied { rejection: String },
    TimedOut,
}

/// A server request was answered, or withdrawn because its turn ended.
#[wire]
pub struct ServerRequestResolvedNotification {
    pub thread_id: ThreadId,
    /// The id of the server request.
    pub request_id: RequestId,
}
