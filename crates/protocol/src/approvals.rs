//! Questions that the server asks while a turn waits: `item/*/requestApproval`,
//! `item/tool/requestUserInput`, and the two approvals of the older dialect. Every subscriber of the thread
//! is asked and the first answer counts; `serverRequest/resolved` tells all of them that it is over, also
//! when nobody answered. MCP tools are approved elsewhere, by an elicitation.

use std::collections::BTreeMap;

use crate::{AbsolutePathBuf, CommandAction, ItemId, ThreadId, TurnId, rpc::RequestId, wire};

/// Asks whether a command may run, or, with `network_approval_context`, whether a running one may reach
/// a host. Then the members that describe a command may be missing.
#[wire]
pub struct CommandExecutionRequestApprovalParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Unix milliseconds. Servers of the 0.118 generation do not send it.
    #[omit]
    pub started_at_ms: Option<i64>,
    /// Set when the question is about a part of the command, to tell such questions apart.
    #[omit]
    pub approval_id: Option<String>,
    /// The agent's words, or the rule's.
    #[omit]
    pub reason: Option<String>,
    #[omit]
    pub network_approval_context: Option<NetworkApprovalContext>,
    /// The whole line, quoted for a shell.
    #[omit]
    pub command: Option<String>,
    #[omit]
    pub cwd: Option<String>,
    /// What the command does, as far as it could be read; for display only.
    #[omit]
    pub command_actions: Option<Vec<CommandAction>>,
    /// What the command wants beyond the sandbox. Accepting the command grants it.
    #[experimental("item/commandExecution/requestApproval.additionalPermissions")]
    #[omit]
    pub additional_permissions: Option<AdditionalPermissionProfile>,
    /// The first words of commands that need not be asked about again, if the answer is
    /// [`AcceptWithExecpolicyAmendment`](CommandExecutionApprovalDecision::AcceptWithExecpolicyAmendment).
    #[omit]
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// Rules to choose one from, for the answer
    /// [`ApplyNetworkPolicyAmendment`](CommandExecutionApprovalDecision::ApplyNetworkPolicyAmendment).
    #[omit]
    pub proposed_network_policy_amendments: Option<Vec<NetworkPolicyAmendment>>,
    /// The choices to show. Others are understood as well.
    #[experimental("item/commandExecution/requestApproval.availableDecisions")]
    #[omit]
    pub available_decisions: Option<Vec<CommandExecutionApprovalDecision>>,
}

/// What is to happen to the command, and to those like it. An error in its place fails the item, and the
/// turn goes on.
#[wire]
pub struct CommandExecutionRequestApprovalResponse {
    pub decision: CommandExecutionApprovalDecision,
}

/// Asks whether edits may be made. The edits themselves are in the item, which has been sent before.
#[wire]
pub struct FileChangeRequestApprovalParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Unix milliseconds. Servers of the 0.118 generation do not send it.
    #[omit]
    pub started_at_ms: Option<i64>,
    pub reason: Option<String>,
    /// A directory below which the agent wants to write without further questions.
    pub grant_root: Option<String>,
}

/// What is to happen to the edits, and to later ones of the same files.
#[wire]
pub struct FileChangeRequestApprovalResponse {
    pub decision: FileChangeApprovalDecision,
}

/// Puts one to three short questions of the agent to the person. No item is started for it: `item_id` is
/// the model's call.
#[wire]
pub struct ToolRequestUserInputParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub questions: Vec<ToolRequestUserInputQuestion>,
}

/// The answers, by the ids of the questions. An error in its place counts as no answers.
#[wire]
pub struct ToolRequestUserInputResponse {
    pub answers: BTreeMap<String, ToolRequestUserInputAnswer>,
}

/// Asks for permissions that commands still to come will need. No item is started for it: `item_id` is
/// the model's call.
#[wire]
pub struct PermissionsRequestApprovalParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub reason: Option<String>,
    pub permissions: RequestPermissionProfile,
}

/// What is granted: what it leaves out is refused, what was not asked for is ignored. An error in its
/// place grants nothing.
#[wire]
pub struct PermissionsRequestApprovalResponse {
    pub permissions: GrantedPermissionProfile,
    #[serde(default)]
    pub scope: PermissionGrantScope,
}

/// [`FileChangeRequestApprovalParams`] of the older dialect.
#[wire]
pub struct ApplyPatchApprovalParams {
    pub conversation_id: ThreadId,
    pub call_id: String,
    /// By path.
    pub file_changes: BTreeMap<String, FileChange>,
    pub reason: Option<String>,
    /// A directory below which the agent wants to write without further questions.
    pub grant_root: Option<String>,
}

/// [`FileChangeRequestApprovalResponse`] of the older dialect.
#[wire]
pub struct ApplyPatchApprovalResponse {
    pub decision: ReviewDecision,
}

/// [`CommandExecutionRequestApprovalParams`] of the older dialect.
#[wire]
pub struct ExecCommandApprovalParams {
    pub conversation_id: ThreadId,
    pub call_id: String,
    /// Set when the question is about a part of the command, to tell such questions apart.
    pub approval_id: Option<String>,
    /// Program and arguments; the newer dialect has one line instead.
    pub command: Vec<String>,
    pub cwd: String,
    pub reason: Option<String>,
    pub parsed_cmd: Vec<ParsedCommand>,
}

/// [`CommandExecutionRequestApprovalResponse`] of the older dialect.
#[wire]
pub struct ExecCommandApprovalResponse {
    pub decision: ReviewDecision,
}

/// The answers to a question about a command.
#[wire(open, rename_all_fields = "snake_case")]
pub enum CommandExecutionApprovalDecision {
    /// This time only.
    #[serde(alias = "approved", alias = "approve", alias = "allow")]
    Accept,
    /// This time, and the same command again in this thread.
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    /// From now on, and unsandboxed, every command that begins with these words, in any thread.
    AcceptWithExecpolicyAmendment { execpolicy_amendment: Vec<String> },
    /// Lays down a rule about a host, which may also forbid it.
    ApplyNetworkPolicyAmendment { network_policy_amendment: NetworkPolicyAmendment },
    /// The agent is told, and goes on without.
    #[serde(alias = "denied", alias = "deny")]
    Decline,
    /// The turn ends as interrupted.
    #[serde(alias = "abort")]
    Cancel,
}

/// The answers to a question about edits.
#[wire(open)]
#[derive(Eq)]
pub enum FileChangeApprovalDecision {
    /// This time only.
    #[serde(alias = "approved", alias = "approve", alias = "allow")]
    Accept,
    /// This time, and later edits of the same files in this thread.
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    /// The agent is told, and goes on without.
    #[serde(alias = "denied", alias = "deny")]
    Decline,
    /// The turn ends as interrupted.
    #[serde(alias = "abort")]
    Cancel,
}

/// The host that a command tries to reach.
#[wire]
pub struct NetworkApprovalContext {
    pub host: String,
    pub protocol: NetworkApprovalProtocol,
}

/// How it tries, as seen by the proxy in between.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkApprovalProtocol {
    Http,
    Https,
    Socks5Tcp,
    Socks5Udp,
}

/// A rule about one host, for all commands to come.
#[wire]
pub struct NetworkPolicyAmendment {
    pub host: String,
    pub action: NetworkPolicyRuleAction,
}

/// What the rule does with the host.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkPolicyRuleAction {
    Allow,
    Deny,
}

/// What one command wants beyond the sandbox; null is nothing.
#[wire]
#[derive(Default)]
pub struct AdditionalPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// What the agent asks for ahead of its commands. Strict: nobody should agree to a request of which this
/// version can read only a part.
#[wire(deny_unknown_fields)]
#[derive(Default)]
pub struct RequestPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// The part of a [`RequestPermissionProfile`] that the client agrees to.
#[wire(sparse)]
#[derive(Default)]
pub struct GrantedPermissionProfile {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

/// All of the network or none: hosts cannot be singled out here.
#[wire]
#[derive(Default)]
pub struct AdditionalNetworkPermissions {
    pub enabled: Option<bool>,
}

/// Files and directory trees, by what may be done to them.
#[wire]
#[derive(Default)]
pub struct AdditionalFileSystemPermissions {
    pub read: Option<Vec<AbsolutePathBuf>>,
    pub write: Option<Vec<AbsolutePathBuf>>,
}

/// How long a grant holds. Within it, later commands use what was granted without asking again.
#[wire]
#[derive(Copy, Default, Eq)]
pub enum PermissionGrantScope {
    #[default]
    Turn,
    /// Later turns of the thread too.
    Session,
}

/// One thing the agent wants to know.
#[wire]
pub struct ToolRequestUserInputQuestion {
    pub id: String,
    /// A word or two to stand above the question.
    pub header: String,
    pub question: String,
    /// Words of one's own may be given in place of an option.
    #[serde(default)]
    pub is_other: bool,
    /// What is typed is not to be shown.
    #[serde(default)]
    pub is_secret: bool,
    /// Null when there is nothing to choose from and the answer is free.
    pub options: Option<Vec<ToolRequestUserInputOption>>,
}

/// An answer the agent suggests. Its label is what is sent back.
#[wire]
pub struct ToolRequestUserInputOption {
    pub label: String,
    pub description: String,
}

/// What the person said to one question: labels of options, or their own words.
#[wire]
pub struct ToolRequestUserInputAnswer {
    pub answers: Vec<String>,
}

/// What the older dialect says about an edited file.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum FileChange {
    /// With all of its new content.
    Add { content: String },
    /// With all that was in it.
    Delete { content: String },
    Update {
        unified_diff: String,
        /// Where the file goes, if it moves.
        move_path: Option<String>,
    },
}

/// What the older dialect can make of a part of a command.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ParsedCommand {
    Read { cmd: String, name: String, path: String },
    ListFiles { cmd: String, path: Option<String> },
    Search { cmd: String, query: Option<String>, path: Option<String> },
    Unknown { cmd: String },
}

/// The answers of the older dialect, the same for commands and for edits.
#[wire(rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum ReviewDecision {
    Approved,
    ApprovedExecpolicyAmendment {
        proposed_execpolicy_amendment: Vec<String>,
    },
    ApprovedForSession,
    NetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment,
    },
    Denied,
    /// Denied, and the turn ends.
    Abort,
}

/// A question is settled: answered by someone, or void because its turn ended.
#[wire]
pub struct ServerRequestResolvedNotification {
    pub thread_id: ThreadId,
    /// The id that the server gave to its request.
    pub request_id: RequestId,
}
