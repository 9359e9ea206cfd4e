//! The notifications that the server can send, and the one that a client can send.

use serde_json::value::RawValue;

use crate::*;

/// Expands a table of notifications into their types, the list and the enum that clients match on.
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

        /// The notifications of the published protocol.
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
            /// A notification that this version does not know or cannot decode.
            Unknown(rpc::Notification),
        }

        impl ServerNotification {
            /// Decodes a notification. Never fails: what cannot be decoded is kept as `Unknown`.
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
    /// An error occurred during a turn; the server may retry.
    ErrorReported = "error" (ErrorNotification);
    /// A thread was started.
    ThreadStarted = "thread/started" (ThreadStartedNotification);
    /// The status of a loaded thread changed.
    ThreadStatusChanged = "thread/status/changed" (ThreadStatusChangedNotification);
    /// A thread was archived.
    ThreadArchived = "thread/archived" (ThreadArchivedNotification);
    /// A thread was restored from the archive.
    ThreadUnarchived = "thread/unarchived" (ThreadUnarchivedNotification);
    /// A thread was unloaded.
    ThreadClosed = "thread/closed" (ThreadClosedNotification);
    /// The skills on disk changed; list them again.
    SkillsChanged = "skills/changed" (SkillsChangedNotification);
    /// The name of a thread changed.
    ThreadNameUpdated = "thread/name/updated" (ThreadNameUpdatedNotification);
    /// The token usage of a thread changed.
    ThreadTokenUsageUpdated = "thread/tokenUsage/updated" (ThreadTokenUsageUpdatedNotification);
    /// A turn started.
    TurnStarted = "turn/started" (TurnStartedNotification);
    /// A hook started.
    HookStarted = "hook/started" (HookStartedNotification);
    /// A turn ended. Its status says how.
    TurnCompleted = "turn/completed" (TurnCompletedNotification);
    /// A hook ended.
    HookCompleted = "hook/completed" (HookCompletedNotification);
    /// The combined diff of a turn changed.
    TurnDiffUpdated = "turn/diff/updated" (TurnDiffUpdatedNotification);
    /// The agent changed its plan.
    TurnPlanUpdated = "turn/plan/updated" (TurnPlanUpdatedNotification);
    /// An item started.
    ItemStarted = "item/started" (ItemStartedNotification);
    /// An automatic approval review started.
    AutoApprovalReviewStarted = "item/autoApprovalReview/started" (ItemGuardianApprovalReviewStartedNotification);
    /// An automatic approval review ended.
    AutoApprovalReviewCompleted = "item/autoApprovalReview/completed" (ItemGuardianApprovalReviewCompletedNotification);
    /// An item ended. Carries its final state.
    ItemCompleted = "item/completed" (ItemCompletedNotification);
    /// Text to append to an agent message.
    AgentMessageDelta = "item/agentMessage/delta" (AgentMessageDeltaNotification);
    /// Text to append to a plan.
    PlanDelta = "item/plan/delta" (PlanDeltaNotification);
    /// Output of a `command/exec` process.
    CommandExecOutputDelta = "command/exec/outputDelta" (CommandExecOutputDeltaNotification);
    /// Output of a command in a turn.
    CommandExecutionOutputDelta = "item/commandExecution/outputDelta" (CommandExecutionOutputDeltaNotification);
    /// The agent wrote to the standard input of a running command.
    CommandExecutionTerminalInteraction = "item/commandExecution/terminalInteraction" (TerminalInteractionNotification);
    /// Output of the patch tool.
    FileChangeOutputDelta = "item/fileChange/outputDelta" (FileChangeOutputDeltaNotification);
    /// A server request was answered or withdrawn.
    ServerRequestResolved = "serverRequest/resolved" (ServerRequestResolvedNotification);
    /// An MCP tool reported progress.
    McpToolCallProgress = "item/mcpToolCall/progress" (McpToolCallProgressNotification);
    /// A sign-in to an MCP server ended.
    McpServerOauthLoginCompleted = "mcpServer/oauthLogin/completed" (McpServerOauthLoginCompletedNotification);
    /// The startup state of an MCP server changed.
    McpServerStartupStatusUpdated = "mcpServer/startupStatus/updated" (McpServerStatusUpdatedNotification);
    /// The active account changed.
    AccountUpdated = "account/updated" (AccountUpdatedNotification);
    /// The rate limits of the account changed.
    AccountRateLimitsUpdated = "account/rateLimits/updated" (AccountRateLimitsUpdatedNotification);
    /// The list of apps changed.
    AppListUpdated = "app/list/updated" (AppListUpdatedNotification);
    /// Something changed at a watched path.
    FsChanged = "fs/changed" (FsChangedNotification);
    /// Text to append to a reasoning summary.
    ReasoningSummaryTextDelta = "item/reasoning/summaryTextDelta" (ReasoningSummaryTextDeltaNotification);
    /// A new section of a reasoning summary started.
    ReasoningSummaryPartAdded = "item/reasoning/summaryPartAdded" (ReasoningSummaryPartAddedNotification);
    /// Text to append to raw reasoning.
    ReasoningTextDelta = "item/reasoning/textDelta" (ReasoningTextDeltaNotification);
    /// The model's history was compacted. Superseded by `contextCompaction` items.
    ThreadCompacted = "thread/compacted" (ContextCompactedNotification);
    /// The provider served a request with another model.
    ModelRerouted = "model/rerouted" (ModelReroutedNotification);
    /// A feature in use is deprecated.
    DeprecationNotice = "deprecationNotice" (DeprecationNoticeNotification);
    /// Part of the configuration was ignored.
    ConfigWarning = "configWarning" (ConfigWarningNotification);
    /// The current results of a search session.
    FuzzyFileSearchSessionUpdated = "fuzzyFileSearch/sessionUpdated" (FuzzyFileSearchSessionUpdatedNotification);
    /// A search session completed its current query.
    FuzzyFileSearchSessionCompleted = "fuzzyFileSearch/sessionCompleted" (FuzzyFileSearchSessionCompletedNotification);
    /// A voice session started.
    ThreadRealtimeStarted = "thread/realtime/started" (ThreadRealtimeStartedNotification);
    /// A raw item of a voice session.
    ThreadRealtimeItemAdded = "thread/realtime/itemAdded" (ThreadRealtimeItemAddedNotification);
    /// Transcript of a voice session.
    ThreadRealtimeTranscriptUpdated = "thread/realtime/transcriptUpdated" (ThreadRealtimeTranscriptUpdatedNotification);
    /// Audio of a voice session.
    ThreadRealtimeOutputAudioDelta = "thread/realtime/outputAudio/delta" (ThreadRealtimeOutputAudioDeltaNotification);
    /// A voice session failed.
    ThreadRealtimeError = "thread/realtime/error" (ThreadRealtimeErrorNotification);
    /// A voice session ended.
    ThreadRealtimeClosed = "thread/realtime/closed" (ThreadRealtimeClosedNotification);
    /// Some directories are writable by everyone.
    WindowsWorldWritableWarning = "windows/worldWritableWarning" (WindowsWorldWritableWarningNotification);
    /// The setup of the Windows sandbox ended.
    WindowsSandboxSetupCompleted = "windowsSandbox/setupCompleted" (WindowsSandboxSetupCompletedNotification);
    /// A sign-in ended.
    AccountLoginCompleted = "account/login/completed" (AccountLoginCompletedNotification);
}

/// A raw item was added to the model's history. Not part of the published protocol: sent only for threads that were
/// started with `experimentalRawEvents`.
#[derive(Clone, Copy, Debug)]
pub struct RawResponseItemCompleted;

impl NotificationMethod for RawResponseItemCompleted {
    const NAME: &'static str = "rawResponseItem/completed";
    type Params = RawResponseItemCompletedNotification;
}

/// The client has received the response to `initialize`. The server does not wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Initialized;

impl NotificationMethod for Initialized {
    const NAME: &'static str = "initialized";
    type Params = NoParams;
}

/// The notifications that a client can send.
pub const CLIENT_NOTIFICATIONS: &[MethodInfo] =
    &[MethodInfo { name: Initialized::NAME, stability: Stability::Stable, params: None, response: None }];
