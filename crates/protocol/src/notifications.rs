//! The notifications that the server can send, and the one that a client can send.
//!
//! The first column of the table is the generation: `v118` has been removed in 0.166, `v166` has been added, `both` has been
//! kept. A client of 0.118 does not get notifications that have been added.

use serde_json::value::RawValue;

use crate::{methods::generations, *};

/// Expands a table of notifications into their types, the list and the enum that clients match on.
macro_rules! notifications {
    ($($(#[$attribute:meta])* $generation:ident $name:ident = $method:literal ($params:ident);)*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl NotificationMethod for $name {
                const NAME: &'static str = $method;
                const GENERATIONS: MethodGenerations = generations!($generation);
                type Params = $params;
            }
        )*

        /// The notifications of the published protocol.
        pub const NOTIFICATIONS: &[MethodInfo] = &[$(MethodInfo {
            name: $method,
            generations: generations!($generation),
            stability: Stability::Stable,
            is_served: true,
            params: Some(TypeInfo::of::<$params>()),
            has_optional_params: false,
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
    both ErrorReported = "error" (ErrorNotification);
    /// A thread was started.
    both ThreadStarted = "thread/started" (ThreadStartedNotification);
    /// The status of a loaded thread changed.
    both ThreadStatusChanged = "thread/status/changed" (ThreadStatusChangedNotification);
    /// The read state of a thread changed.
    v166 ThreadReadStateChanged = "thread/readState/changed" (ThreadReadStateChangedNotification);
    /// A thread was archived.
    both ThreadArchived = "thread/archived" (ThreadArchivedNotification);
    /// A thread was deleted.
    v166 ThreadDeleted = "thread/deleted" (ThreadDeletedNotification);
    /// A thread was restored from the archive.
    both ThreadUnarchived = "thread/unarchived" (ThreadUnarchivedNotification);
    /// A thread was unloaded.
    both ThreadClosed = "thread/closed" (ThreadClosedNotification);
    /// Turns of a thread were removed.
    v166 ThreadReverted = "thread/reverted" (ThreadRevertedNotification);
    /// The skills on disk changed; list them again.
    both SkillsChanged = "skills/changed" (SkillsChangedNotification);
    /// The name of a thread changed.
    both ThreadNameUpdated = "thread/name/updated" (ThreadNameUpdatedNotification);
    /// An attachment of a thread was added or removed.
    v166 ThreadAttachmentUpdated = "thread/attachment/updated" (ThreadAttachmentUpdatedNotification);
    /// The goal of a thread was set or changed.
    v166 ThreadGoalUpdated = "thread/goal/updated" (ThreadGoalUpdatedNotification);
    /// A prediction is complete.
    v166 ThreadPredictionUpdated = "thread/prediction/updated" (ThreadPredictionUpdatedNotification);
    /// The goal of a thread was removed.
    v166 ThreadGoalCleared = "thread/goal/cleared" (ThreadGoalClearedNotification);
    /// The queue of a thread changed; list it again.
    v166 ThreadQueueChanged = "thread/queue/changed" (ThreadQueueChangedNotification);
    /// A project was created, changed or deleted.
    v166 ProjectChanged = "project/changed" (ProjectChangedNotification);
    /// A thread was moved into a project or out of one.
    v166 ThreadProjectUpdated = "thread/project/updated" (ThreadProjectUpdatedNotification);
    /// A thread is connected to an environment.
    v166 ThreadEnvironmentConnected = "thread/environment/connected" (EnvironmentConnectionNotification);
    /// A thread lost the connection to an environment.
    v166 ThreadEnvironmentDisconnected = "thread/environment/disconnected" (EnvironmentConnectionNotification);
    /// The settings of a thread changed.
    v166 ThreadSettingsUpdated = "thread/settings/updated" (ThreadSettingsUpdatedNotification);
    /// The token usage of a thread changed.
    both ThreadTokenUsageUpdated = "thread/tokenUsage/updated" (ThreadTokenUsageUpdatedNotification);
    /// A turn started.
    both TurnStarted = "turn/started" (TurnStartedNotification);
    /// A hook started.
    both HookStarted = "hook/started" (HookStartedNotification);
    /// A turn ended. Its status says how.
    both TurnCompleted = "turn/completed" (TurnCompletedNotification);
    /// A hook ended.
    both HookCompleted = "hook/completed" (HookCompletedNotification);
    /// The combined diff of a turn changed.
    both TurnDiffUpdated = "turn/diff/updated" (TurnDiffUpdatedNotification);
    /// The agent changed its plan.
    both TurnPlanUpdated = "turn/plan/updated" (TurnPlanUpdatedNotification);
    /// An item started.
    both ItemStarted = "item/started" (ItemStartedNotification);
    /// An automatic approval review started.
    both AutoApprovalReviewStarted = "item/autoApprovalReview/started" (ItemGuardianApprovalReviewStartedNotification);
    /// An automatic approval review ended.
    both AutoApprovalReviewCompleted = "item/autoApprovalReview/completed" (ItemGuardianApprovalReviewCompletedNotification);
    /// Every action of a turn is reviewed from now on.
    v166 StrictReviewRequired = "autoApprovalReview/strictReviewRequired" (StrictReviewRequiredNotification);
    /// An item ended. Carries its final state.
    both ItemCompleted = "item/completed" (ItemCompletedNotification);
    /// Text to append to an agent message.
    both AgentMessageDelta = "item/agentMessage/delta" (AgentMessageDeltaNotification);
    /// Text to append to a plan.
    both PlanDelta = "item/plan/delta" (PlanDeltaNotification);
    /// Output of a `command/exec` process.
    both CommandExecOutputDelta = "command/exec/outputDelta" (CommandExecOutputDeltaNotification);
    /// Output of a process.
    v166 ProcessOutputDelta = "process/outputDelta" (ProcessOutputDeltaNotification);
    /// A process ended.
    v166 ProcessExited = "process/exited" (ProcessExitedNotification);
    /// Output of a command in a turn.
    both CommandExecutionOutputDelta = "item/commandExecution/outputDelta" (CommandExecutionOutputDeltaNotification);
    /// The agent wrote to the standard input of a running command.
    both CommandExecutionTerminalInteraction = "item/commandExecution/terminalInteraction" (TerminalInteractionNotification);
    /// Output of the patch tool.
    both FileChangeOutputDelta = "item/fileChange/outputDelta" (FileChangeOutputDeltaNotification);
    /// The changes of an item that the agent is still writing.
    v166 FileChangePatchUpdated = "item/fileChange/patchUpdated" (FileChangePatchUpdatedNotification);
    /// A server request was answered or withdrawn.
    both ServerRequestResolved = "serverRequest/resolved" (ServerRequestResolvedNotification);
    /// An MCP tool reported progress.
    both McpToolCallProgress = "item/mcpToolCall/progress" (McpToolCallProgressNotification);
    /// A sign-in to an MCP server ended.
    both McpServerOauthLoginCompleted = "mcpServer/oauthLogin/completed" (McpServerOauthLoginCompletedNotification);
    /// The startup state of an MCP server changed.
    both McpServerStartupStatusUpdated = "mcpServer/startupStatus/updated" (McpServerStatusUpdatedNotification);
    /// An event of a stream.
    v166 McpServerEventReceived = "mcpServer/event/stream/notification" (McpServerEventStreamNotification);
    /// The active account changed.
    both AccountUpdated = "account/updated" (AccountUpdatedNotification);
    /// The state of a sign-in to a gateway changed.
    v166 GatewayOAuthChanged = "account/gatewayOAuth/changed" (GatewayOAuthChangedNotification);
    /// The rate limits of the account changed.
    both AccountRateLimitsUpdated = "account/rateLimits/updated" (AccountRateLimitsUpdatedNotification);
    /// The list of apps changed.
    both AppListUpdated = "app/list/updated" (AppListUpdatedNotification);
    /// The connection to the service for remote control changed.
    v166 RemoteControlStatusChanged = "remoteControl/status/changed" (RemoteControlStatusChangedNotification);
    /// Part of an import is complete.
    v166 ExternalAgentConfigImportProgress = "externalAgentConfig/import/progress" (ExternalAgentConfigImportProgressNotification);
    /// An import is complete.
    v166 ExternalAgentConfigImportCompleted = "externalAgentConfig/import/completed" (ExternalAgentConfigImportCompletedNotification);
    /// Something changed at a watched path.
    both FsChanged = "fs/changed" (FsChangedNotification);
    /// Text to append to a reasoning summary.
    both ReasoningSummaryTextDelta = "item/reasoning/summaryTextDelta" (ReasoningSummaryTextDeltaNotification);
    /// A new section of a reasoning summary started.
    both ReasoningSummaryPartAdded = "item/reasoning/summaryPartAdded" (ReasoningSummaryPartAddedNotification);
    /// Text to append to raw reasoning.
    both ReasoningTextDelta = "item/reasoning/textDelta" (ReasoningTextDeltaNotification);
    /// The model's history was compacted. Superseded by `contextCompaction` items.
    both ThreadCompacted = "thread/compacted" (ContextCompactedNotification);
    /// The provider served a request with another model.
    both ModelRerouted = "model/rerouted" (ModelReroutedNotification);
    /// The provider asks the user to verify something before it serves a model fully.
    v166 ModelVerificationRequested = "model/verification" (ModelVerificationNotification);
    /// The credentials of a provider are being renewed.
    v166 AuthRecoveryStarted = "modelProvider/authRecoveryStarted" (AuthRecoveryNotification);
    /// The credentials of a provider were renewed.
    v166 AuthRecoveryCompleted = "modelProvider/authRecoveryCompleted" (AuthRecoveryNotification);
    /// The provider's assessment of a turn.
    v166 TurnModerationMetadata = "turn/moderationMetadata" (TurnModerationMetadataNotification);
    /// The provider checks the model's output before it sends it, which takes longer.
    v166 ModelSafetyBufferingUpdated = "model/safetyBuffering/updated" (ModelSafetyBufferingUpdatedNotification);
    /// Something that the user should know.
    v166 WarningReported = "warning" (WarningNotification);
    /// The guardian warns about something that happened in a thread.
    v166 GuardianWarning = "guardianWarning" (GuardianWarningNotification);
    /// A feature in use is deprecated.
    both DeprecationNotice = "deprecationNotice" (DeprecationNoticeNotification);
    /// Part of the configuration was ignored.
    both ConfigWarning = "configWarning" (ConfigWarningNotification);
    /// The current results of a search session.
    both FuzzyFileSearchSessionUpdated = "fuzzyFileSearch/sessionUpdated" (FuzzyFileSearchSessionUpdatedNotification);
    /// A search session completed its current query.
    both FuzzyFileSearchSessionCompleted = "fuzzyFileSearch/sessionCompleted" (FuzzyFileSearchSessionCompletedNotification);
    /// A voice session started.
    both ThreadRealtimeStarted = "thread/realtime/started" (ThreadRealtimeStartedNotification);
    /// A raw item of a voice session.
    both ThreadRealtimeItemAdded = "thread/realtime/itemAdded" (ThreadRealtimeItemAddedNotification);
    /// Transcript of a voice session.
    v118 ThreadRealtimeTranscriptUpdated = "thread/realtime/transcriptUpdated" (ThreadRealtimeTranscriptUpdatedNotification);
    /// An entry of a voice session started.
    v166 ThreadRealtimeItemStarted = "thread/realtime/item/started" (ThreadRealtimeItemStartedNotification);
    /// Text to append to a transcript.
    v166 ThreadRealtimeItemTranscriptDelta = "thread/realtime/item/transcript/delta" (ThreadRealtimeItemTranscriptDeltaNotification);
    /// An entry of a voice session is complete.
    v166 ThreadRealtimeItemCompleted = "thread/realtime/item/completed" (ThreadRealtimeItemCompletedNotification);
    /// The transcript of something that is being said.
    v166 ThreadRealtimeTranscriptDelta = "thread/realtime/transcript/delta" (ThreadRealtimeTranscriptDeltaNotification);
    /// The transcript of something that was said.
    v166 ThreadRealtimeTranscriptDone = "thread/realtime/transcript/done" (ThreadRealtimeTranscriptDoneNotification);
    /// Audio of a voice session.
    both ThreadRealtimeOutputAudioDelta = "thread/realtime/outputAudio/delta" (ThreadRealtimeOutputAudioDeltaNotification);
    /// The provider's description of a WebRTC session.
    v166 ThreadRealtimeSdp = "thread/realtime/sdp" (ThreadRealtimeSdpNotification);
    /// A voice session failed.
    both ThreadRealtimeError = "thread/realtime/error" (ThreadRealtimeErrorNotification);
    /// A voice session ended.
    both ThreadRealtimeClosed = "thread/realtime/closed" (ThreadRealtimeClosedNotification);
    /// Some directories are writable by everyone.
    both WindowsWorldWritableWarning = "windows/worldWritableWarning" (WindowsWorldWritableWarningNotification);
    /// The setup of the Windows sandbox ended.
    both WindowsSandboxSetupCompleted = "windowsSandbox/setupCompleted" (WindowsSandboxSetupCompletedNotification);
    /// A sign-in ended.
    both AccountLoginCompleted = "account/login/completed" (AccountLoginCompletedNotification);
}

/// A raw item was added to the model's history. Not part of the published protocol: sent only for threads that were
/// started with `experimentalRawEvents`.
#[derive(Clone, Copy, Debug)]
pub struct RawResponseItemCompleted;

impl NotificationMethod for RawResponseItemCompleted {
    const NAME: &'static str = "rawResponseItem/completed";
    const GENERATIONS: MethodGenerations = MethodGenerations::Both;
    type Params = RawResponseItemCompletedNotification;
}

/// The client has received the response to `initialize`. The server does not wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Initialized;

impl NotificationMethod for Initialized {
    const NAME: &'static str = "initialized";
    const GENERATIONS: MethodGenerations = MethodGenerations::Both;
    type Params = NoParams;
}

/// The notifications that a client can send.
pub const CLIENT_NOTIFICATIONS: &[MethodInfo] = &[MethodInfo {
    name: Initialized::NAME,
    generations: MethodGenerations::Both,
    stability: Stability::Stable,
    is_served: true,
    params: None,
    has_optional_params: false,
    response: None,
}];
