//! What clients of later generations ask for beyond the published protocol. Only what such clients were seen
//! to use is here; nothing of it is part of the schema.

use serde_json::Value;

use crate::{
    AbsolutePathBuf, ActivePermissionProfile, ApprovalsReviewer, AskForApproval, CollaborationMode,
    HookEventName, ItemId, NotificationMethod, Patch, Personality, ReasoningEffort, ReasoningSummary,
    SandboxPolicy, ServiceTier, ThreadId, ThreadItem, Turn, TurnId, wire,
};

/// Which end of a history comes first.
#[wire]
#[derive(Copy, Eq)]
pub enum SortDirection {
    Asc,
    Desc,
}

/// How much of its turns a page holds.
#[wire]
#[derive(Copy, Eq)]
pub enum TurnItemsView {
    /// The turns without their items.
    NotLoaded,
    /// What was asked, and the last thing that was said.
    Summary,
    Full,
}

/// Which page of a thread's turns.
#[wire(sparse)]
pub struct ThreadTurnsListParams {
    pub thread_id: ThreadId,
    /// `nextCursor` of the page before, or `backwardsCursor` to turn round.
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// The newest first when left out.
    pub sort_direction: Option<SortDirection>,
    /// Everything when left out.
    pub items_view: Option<TurnItemsView>,
}

/// Which page of its turns a resumed thread is to come with.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadResumeInitialTurnsPageParams {
    pub limit: Option<u32>,
    /// The newest first when left out.
    pub sort_direction: Option<SortDirection>,
    /// A summary when left out.
    pub items_view: Option<TurnItemsView>,
}

/// One page of a thread's turns.
#[wire]
pub struct ThreadTurnsListResponse {
    pub data: Vec<Turn>,
    pub next_cursor: Option<String>,
    /// Begins at the first turn of this page when it is read in the other direction.
    pub backwards_cursor: Option<String>,
}

/// Which page of a thread's items.
#[wire(sparse)]
pub struct ThreadItemsListParams {
    pub thread_id: ThreadId,
    /// Only this turn's.
    pub turn_id: Option<TurnId>,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// The oldest first when left out.
    pub sort_direction: Option<SortDirection>,
}

/// One page of a thread's items.
#[wire]
pub struct ThreadItemsListResponse {
    pub data: Vec<ThreadItemEntry>,
    pub next_cursor: Option<String>,
    pub backwards_cursor: Option<String>,
}

/// An item and where it belongs.
#[wire]
pub struct ThreadItemEntry {
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Not recorded; null.
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: Option<i64>,
}

/// Which page of a thread's background commands. There are few: one page holds them all.
#[wire(sparse)]
pub struct ThreadBackgroundTerminalsListParams {
    pub thread_id: ThreadId,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// The commands that have outlived their calls and still run, oldest first.
#[wire]
pub struct ThreadBackgroundTerminalsListResponse {
    pub data: Vec<ThreadBackgroundTerminal>,
    pub next_cursor: Option<String>,
}

/// A command in the background.
#[wire]
pub struct ThreadBackgroundTerminal {
    /// The `commandExecution` item that is not complete yet.
    pub item_id: ItemId,
    pub process_id: String,
    pub command: String,
    pub cwd: String,
    /// Not measured; null, like the load.
    pub os_pid: Option<u32>,
    pub cpu_percent: Option<f64>,
    pub rss_kb: Option<u64>,
}

/// Ends one of them.
#[wire]
pub struct ThreadBackgroundTerminalsTerminateParams {
    pub thread_id: ThreadId,
    pub process_id: String,
}

/// Whether it was still running.
#[wire]
pub struct ThreadBackgroundTerminalsTerminateResponse {
    pub terminated: bool,
}

/// Takes a thread away for good, with what its agents did.
#[wire]
pub struct ThreadDeleteParams {
    pub thread_id: ThreadId,
}

/// The thread is gone; `thread/deleted` follows.
#[wire]
pub struct ThreadDeleteResponse {}

/// Tells that a thread is gone.
#[derive(Clone, Copy, Debug)]
pub struct ThreadDeleted;

impl NotificationMethod for ThreadDeleted {
    const NAME: &'static str = "thread/deleted";
    type Params = ThreadDeletedNotification;
}

/// A thread is gone for good. Every connection is told.
#[wire]
pub struct ThreadDeletedNotification {
    pub thread_id: ThreadId,
}

/// Changes what holds for the next turns, without starting one. What is left out stays as it is.
#[wire(sparse)]
pub struct ThreadSettingsUpdateParams {
    pub thread_id: ThreadId,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_policy: Option<SandboxPolicy>,
    /// A permission profile by its id, instead of a sandbox policy.
    pub permissions: Option<String>,
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub collaboration_mode: Option<CollaborationMode>,
    pub personality: Option<Personality>,
}

/// The change holds.
#[wire]
pub struct ThreadSettingsUpdateResponse {}

/// Tells those who follow a thread what its next turns will have.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSettingsUpdated;

impl NotificationMethod for ThreadSettingsUpdated {
    const NAME: &'static str = "thread/settings/updated";
    type Params = ThreadSettingsUpdatedNotification;
}

/// The settings of a thread's next turns have changed.
#[wire]
pub struct ThreadSettingsUpdatedNotification {
    pub thread_id: ThreadId,
    pub thread_settings: ThreadSettings,
}

/// What holds for the next turns of a thread.
#[wire]
pub struct ThreadSettings {
    pub disabled_plugin_ids: Vec<String>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox_policy: SandboxPolicy,
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub collaboration_mode: CollaborationMode,
    /// Always `explicitRequestOnly`: agents are started when somebody asks for them.
    pub multi_agent_mode: String,
    pub personality: Option<Personality>,
}

/// Where to look for hooks: in directories, or where a thread works.
#[wire(sparse)]
pub struct HooksListParams {
    #[serde(default)]
    pub cwds: Vec<String>,
    pub thread_id: Option<ThreadId>,
}

/// The hooks, directory by directory.
#[wire]
pub struct HooksListResponse {
    pub data: Vec<HooksListEntry>,
}

/// The hooks that turns in a directory have.
#[wire]
pub struct HooksListEntry {
    pub cwd: String,
    pub hooks: Vec<HookMetadata>,
    /// What was declared and cannot be used.
    pub warnings: Vec<String>,
    pub errors: Vec<Value>,
}

/// A hook as it is declared.
#[wire]
pub struct HookMetadata {
    /// Tells hooks apart: the file and the place in it.
    pub key: String,
    pub event_name: HookEventName,
    /// Always `command`.
    pub handler_type: String,
    pub command: String,
    #[serde(rename = "async")]
    pub is_async: bool,
    pub matcher: Option<String>,
    pub timeout_sec: u64,
    pub status_message: Option<String>,
    pub additional_context_limit: Option<u64>,
    pub source_path: AbsolutePathBuf,
    /// `user` or `project`.
    pub source: String,
    pub plugin_id: Option<String>,
    pub environment_id: Option<String>,
    pub display_order: i64,
    pub enabled: bool,
    pub is_managed: bool,
    /// Changes when what is run does.
    pub current_hash: String,
    /// Always `trusted`: hooks of projects that are not trusted are not read.
    pub trust_status: String,
}

/// Nothing to say.
#[wire(sparse)]
pub struct BedrockCheckGovCloudRequirementsParams {}

/// Asked once when a later terminal interface starts. No provider here is Bedrock, so both are false.
#[wire]
pub struct BedrockCheckGovCloudRequirementsResponse {
    pub is_gov_cloud: bool,
    pub should_warn: bool,
}
