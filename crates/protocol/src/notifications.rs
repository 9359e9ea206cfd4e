//! Every notification the server may send, and the one a client may.

use serde_json::value::RawValue;

use crate::*;

/// Makes the enum of all notifications from a table of them.
macro_rules! notifications {
    ($($(#[$attribute:meta])* $name:ident = $method:literal ($params:ty);)*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl NotificationMethod for $name {
                const NAME: &'static str = $method;
                type Params = $params;
            }
        )*

        /// Every notification of the protocol's list.
        pub const NOTIFICATIONS: &[MethodInfo] = &[$(MethodInfo {
            name: $method,
            stability: Stability::Stable,
            params: Some(TypeInfo::of::<$params>()),
            response: None,
        }),*];

        /// A notification as a client receives it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ServerNotification {
            $($(#[$attribute])* $name($params),)*
            /// One that this version does not know, or cannot read.
            Unknown(rpc::Notification),
        }

        impl ServerNotification {
            /// Never fails: what cannot be read as its type is kept as it came.
            pub fn decode(method: &str, params: Option<&RawValue>) -> Self {
                let known = match method {
                    $($method => decode_params(params).map(Self::$name).ok(),)*
                    _ => None,
                };
                known.unwrap_or_else(|| Self::Unknown(rpc::Notification {
                    method: method.to_owned(),
                    params: params.and_then(|params| serde_json::from_str(params.get()).ok()),
                }))
            }

            pub fn method(&self) -> &str {
                match self {
                    $(Self::$name(_) => $method,)*
                    Self::Unknown(notification) => &notification.method,
                }
            }
        }
    };
}

notifications! {
    /// Something went wrong in a turn; it may be tried again.
    ErrorReported = "error" (ErrorNotification);
    /// A thread was opened.
    ThreadStarted = "thread/started" (ThreadStartedNotification);
    /// A loaded thread changed its status.
    ThreadStatusChanged = "thread/status/changed" (ThreadStatusChangedNotification);
    /// A thread was put away.
    ThreadArchived = "thread/archived" (ThreadArchivedNotification);
    /// A thread was taken back.
    ThreadUnarchived = "thread/unarchived" (ThreadUnarchivedNotification);
    /// A thread was unloaded.
    ThreadClosed = "thread/closed" (ThreadClosedNotification);
    /// The skills on disk changed; list them again.
    SkillsChanged = "skills/changed" (SkillsChangedNotification);
    /// A thread got another name.
    ThreadNameUpdated = "thread/name/updated" (ThreadNameUpdatedNotification);
    /// How many tokens a thread has used.
    ThreadTokenUsageUpdated = "thread/tokenUsage/updated" (ThreadTokenUsageUpdatedNotification);
    /// A turn began to run.
    TurnStarted = "turn/started" (TurnStartedNotification);
    /// A configured hook began to run.
    HookStarted = "hook/started" (HookStartedNotification);
    /// A turn ended, however it ended.
    TurnCompleted = "turn/completed" (TurnCompletedNotification);
    /// A configured hook ended.
    HookCompleted = "hook/completed" (HookCompletedNotification);
    /// All file changes of a turn so far, as one diff.
    TurnDiffUpdated = "turn/diff/updated" (TurnDiffUpdatedNotification);
    /// The agent shared or changed its plan.
    TurnPlanUpdated = "turn/plan/updated" (TurnPlanUpdatedNotification);
    /// A unit of work began.
    ItemStarted = "item/started" (ItemStartedNotification);
    /// The guardian began to review an approval.
    AutoApprovalReviewStarted = "item/autoApprovalReview/started" (ItemGuardianApprovalReviewStartedNotification);
    /// The guardian decided.
    AutoApprovalReviewCompleted = "item/autoApprovalReview/completed" (ItemGuardianApprovalReviewCompletedNotification);
    /// A unit of work ended; this is its final state.
    ItemCompleted = "item/completed" (ItemCompletedNotification);
    /// More text of the agent's message.
    AgentMessageDelta = "item/agentMessage/delta" (AgentMessageDeltaNotification);
    /// More text of a proposed plan.
    PlanDelta = "item/plan/delta" (PlanDeltaNotification);
    /// More output of a `command/exec` process.
    CommandExecOutputDelta = "command/exec/outputDelta" (CommandExecOutputDeltaNotification);
    /// More output of a command in a turn.
    CommandExecutionOutputDelta = "item/commandExecution/outputDelta" (CommandExecutionOutputDeltaNotification);
    /// The agent typed into a running command.
    CommandExecutionTerminalInteraction = "item/commandExecution/terminalInteraction" (TerminalInteractionNotification);
    /// What the patch tool said.
    FileChangeOutputDelta = "item/fileChange/outputDelta" (FileChangeOutputDeltaNotification);
    /// A request to clients was answered or is void.
    ServerRequestResolved = "serverRequest/resolved" (ServerRequestResolvedNotification);
    /// An MCP tool reports progress.
    McpToolCallProgress = "item/mcpToolCall/progress" (McpToolCallProgressNotification);
    /// A sign-in to an MCP server ended.
    McpServerOauthLoginCompleted = "mcpServer/oauthLogin/completed" (McpServerOauthLoginCompletedNotification);
    /// An MCP server is starting, ready or failed.
    McpServerStartupStatusUpdated = "mcpServer/startupStatus/updated" (McpServerStatusUpdatedNotification);
    /// Another account or sign-in mode is active.
    AccountUpdated = "account/updated" (AccountUpdatedNotification);
    /// The quota in use changed.
    AccountRateLimitsUpdated = "account/rateLimits/updated" (AccountRateLimitsUpdatedNotification);
    /// The list of apps changed.
    AppListUpdated = "app/list/updated" (AppListUpdatedNotification);
    /// Something changed at a watched path.
    FsChanged = "fs/changed" (FsChangedNotification);
    /// More text of a reasoning summary.
    ReasoningSummaryTextDelta = "item/reasoning/summaryTextDelta" (ReasoningSummaryTextDeltaNotification);
    /// A new section of a reasoning summary begins.
    ReasoningSummaryPartAdded = "item/reasoning/summaryPartAdded" (ReasoningSummaryPartAddedNotification);
    /// More raw reasoning text.
    ReasoningTextDelta = "item/reasoning/textDelta" (ReasoningTextDeltaNotification);
    /// The history was shortened; `contextCompaction` items say the same.
    ThreadCompacted = "thread/compacted" (ContextCompactedNotification);
    /// The provider answers with another model.
    ModelRerouted = "model/rerouted" (ModelReroutedNotification);
    /// Something in use will go away.
    DeprecationNotice = "deprecationNotice" (DeprecationNoticeNotification);
    /// Something is wrong with the configuration.
    ConfigWarning = "configWarning" (ConfigWarningNotification);
    /// The current results of a search session.
    FuzzyFileSearchSessionUpdated = "fuzzyFileSearch/sessionUpdated" (FuzzyFileSearchSessionUpdatedNotification);
    /// A search session has looked at everything.
    FuzzyFileSearchSessionCompleted = "fuzzyFileSearch/sessionCompleted" (FuzzyFileSearchSessionCompletedNotification);
    /// A voice session is open.
    ThreadRealtimeStarted = "thread/realtime/started" (ThreadRealtimeStartedNotification);
    /// A raw item of a voice session.
    ThreadRealtimeItemAdded = "thread/realtime/itemAdded" (ThreadRealtimeItemAddedNotification);
    /// More transcript of a voice session.
    ThreadRealtimeTranscriptUpdated = "thread/realtime/transcriptUpdated" (ThreadRealtimeTranscriptUpdatedNotification);
    /// More audio of a voice session.
    ThreadRealtimeOutputAudioDelta = "thread/realtime/outputAudio/delta" (ThreadRealtimeOutputAudioDeltaNotification);
    /// A voice session failed.
    ThreadRealtimeError = "thread/realtime/error" (ThreadRealtimeErrorNotification);
    /// A voice session ended.
    ThreadRealtimeClosed = "thread/realtime/closed" (ThreadRealtimeClosedNotification);
    /// Directories that everyone can write to.
    WindowsWorldWritableWarning = "windows/worldWritableWarning" (WindowsWorldWritableWarningNotification);
    /// The Windows sandbox is ready, or is not.
    WindowsSandboxSetupCompleted = "windowsSandbox/setupCompleted" (WindowsSandboxSetupCompletedNotification);
    /// A sign-in ended.
    AccountLoginCompleted = "account/login/completed" (AccountLoginCompletedNotification);
}

/// A raw item that entered the model's history. Not in the protocol's list: only threads started with
/// `experimentalRawEvents` send it.
#[derive(Clone, Copy, Debug)]
pub struct RawResponseItemCompleted;

impl NotificationMethod for RawResponseItemCompleted {
    const NAME: &'static str = "rawResponseItem/completed";
    type Params = RawResponseItemCompletedNotification;
}

/// The client has read the answer to `initialize`. Nothing waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Initialized;

impl NotificationMethod for Initialized {
    const NAME: &'static str = "initialized";
    type Params = NoParams;
}

/// Every notification a client may send.
pub const CLIENT_NOTIFICATIONS: &[MethodInfo] =
    &[MethodInfo { name: Initialized::NAME, stability: Stability::Stable, params: None, response: None }];
