//! Every request a client may send, in the order of the protocol's own list.

use crate::{methods::requests, *};

requests! {
    /// Every request a client may send.
    CLIENT_REQUESTS;

    /// Opens the connection: who the client is and what it can take.
    stable Initialize = "initialize" (InitializeParams) -> InitializeResponse;
    /// Opens a fresh conversation and subscribes the caller to it.
    stable ThreadStart = "thread/start" (ThreadStartParams) -> ThreadStartResponse;
    /// Reopens a stored conversation, or joins one that is loaded.
    stable ThreadResume = "thread/resume" (ThreadResumeParams) -> ThreadResumeResponse;
    /// Copies a conversation into a new one.
    stable ThreadFork = "thread/fork" (ThreadForkParams) -> ThreadForkResponse;
    /// Puts a conversation away.
    stable ThreadArchive = "thread/archive" (ThreadArchiveParams) -> ThreadArchiveResponse;
    /// Stops the events of a conversation for this connection.
    stable ThreadUnsubscribe = "thread/unsubscribe" (ThreadUnsubscribeParams) -> ThreadUnsubscribeResponse;
    /// Counts a question that the client asks on its own; the time of commands stands still meanwhile.
    experimental ThreadIncrementElicitation = "thread/increment_elicitation" (ThreadIncrementElicitationParams) -> ThreadIncrementElicitationResponse;
    /// Counts one such question less.
    experimental ThreadDecrementElicitation = "thread/decrement_elicitation" (ThreadDecrementElicitationParams) -> ThreadDecrementElicitationResponse;
    /// Names a conversation.
    stable ThreadNameSet = "thread/name/set" (ThreadSetNameParams) -> ThreadSetNameResponse;
    /// Patches what is stored beside a conversation.
    stable ThreadMetadataUpdate = "thread/metadata/update" (ThreadMetadataUpdateParams) -> ThreadMetadataUpdateResponse;
    /// Takes an archived conversation back.
    stable ThreadUnarchive = "thread/unarchive" (ThreadUnarchiveParams) -> ThreadUnarchiveResponse;
    /// Shortens the history that the model sees.
    stable ThreadCompactStart = "thread/compact/start" (ThreadCompactStartParams) -> ThreadCompactStartResponse;
    /// Runs a person's own command in the conversation, outside the sandbox.
    stable ThreadShellCommand = "thread/shellCommand" (ThreadShellCommandParams) -> ThreadShellCommandResponse;
    /// Ends the commands that outlived their turns.
    experimental ThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean" (ThreadBackgroundTerminalsCleanParams) -> ThreadBackgroundTerminalsCleanResponse;
    /// Drops the last turns.
    stable ThreadRollback = "thread/rollback" (ThreadRollbackParams) -> ThreadRollbackResponse;
    /// Pages through stored conversations.
    stable ThreadList = "thread/list" (ThreadListParams) -> ThreadListResponse;
    /// Names the conversations in memory.
    stable ThreadLoadedList = "thread/loaded/list" (ThreadLoadedListParams) -> ThreadLoadedListResponse;
    /// Reads a conversation without opening it.
    stable ThreadRead = "thread/read" (ThreadReadParams) -> ThreadReadResponse;
    /// Finds the skills that apply to directories.
    stable SkillsList = "skills/list" (SkillsListParams) -> SkillsListResponse;
    /// Finds marketplaces and the state of their plugins.
    stable PluginList = "plugin/list" (PluginListParams) -> PluginListResponse;
    /// Tells all about one plugin.
    stable PluginRead = "plugin/read" (PluginReadParams) -> PluginReadResponse;
    /// Pages through the apps (connectors) of the account.
    stable AppList = "app/list" (AppsListParams) -> AppsListResponse;
    /// Reads a file.
    stable FsReadFile = "fs/readFile" (FsReadFileParams) -> FsReadFileResponse;
    /// Writes a file.
    stable FsWriteFile = "fs/writeFile" (FsWriteFileParams) -> FsWriteFileResponse;
    /// Makes a directory.
    stable FsCreateDirectory = "fs/createDirectory" (FsCreateDirectoryParams) -> FsCreateDirectoryResponse;
    /// Tells what is at a path.
    stable FsGetMetadata = "fs/getMetadata" (FsGetMetadataParams) -> FsGetMetadataResponse;
    /// Lists a directory.
    stable FsReadDirectory = "fs/readDirectory" (FsReadDirectoryParams) -> FsReadDirectoryResponse;
    /// Removes a file or tree.
    stable FsRemove = "fs/remove" (FsRemoveParams) -> FsRemoveResponse;
    /// Copies a file or tree.
    stable FsCopy = "fs/copy" (FsCopyParams) -> FsCopyResponse;
    /// Reports changes at a path until unwatched.
    stable FsWatch = "fs/watch" (FsWatchParams) -> FsWatchResponse;
    /// Ends a watch.
    stable FsUnwatch = "fs/unwatch" (FsUnwatchParams) -> FsUnwatchResponse;
    /// Turns a skill on or off.
    stable SkillsConfigWrite = "skills/config/write" (SkillsConfigWriteParams) -> SkillsConfigWriteResponse;
    /// Installs a plugin from a marketplace.
    stable PluginInstall = "plugin/install" (PluginInstallParams) -> PluginInstallResponse;
    /// Removes an installed plugin.
    stable PluginUninstall = "plugin/uninstall" (PluginUninstallParams) -> PluginUninstallResponse;
    /// Adds user input to a thread and starts work on it.
    stable TurnStart = "turn/start" (TurnStartParams) -> TurnStartResponse;
    /// Adds user input to the turn that is running.
    stable TurnSteer = "turn/steer" (TurnSteerParams) -> TurnSteerResponse;
    /// Stops the turn that is running.
    stable TurnInterrupt = "turn/interrupt" (TurnInterruptParams) -> TurnInterruptResponse;
    /// Opens a voice session on a thread.
    experimental ThreadRealtimeStart = "thread/realtime/start" (ThreadRealtimeStartParams) -> ThreadRealtimeStartResponse;
    /// Sends audio into it.
    experimental ThreadRealtimeAppendAudio = "thread/realtime/appendAudio" (ThreadRealtimeAppendAudioParams) -> ThreadRealtimeAppendAudioResponse;
    /// Sends text into it.
    experimental ThreadRealtimeAppendText = "thread/realtime/appendText" (ThreadRealtimeAppendTextParams) -> ThreadRealtimeAppendTextResponse;
    /// Closes it.
    experimental ThreadRealtimeStop = "thread/realtime/stop" (ThreadRealtimeStopParams) -> ThreadRealtimeStopResponse;
    /// Has the changes of a repository reviewed.
    stable ReviewStart = "review/start" (ReviewStartParams) -> ReviewStartResponse;
    /// Pages through the models on offer.
    stable ModelList = "model/list" (ModelListParams) -> ModelListResponse;
    /// Pages through feature flags.
    stable ExperimentalFeatureList = "experimentalFeature/list" (ExperimentalFeatureListParams) -> ExperimentalFeatureListResponse;
    /// Turns features on or off until the process ends.
    stable ExperimentalFeatureEnablementSet = "experimentalFeature/enablement/set" (ExperimentalFeatureEnablementSetParams) -> ExperimentalFeatureEnablementSetResponse;
    /// Lists the presets of how agent and person work together.
    experimental CollaborationModeList = "collaborationMode/list" (CollaborationModeListParams) -> CollaborationModeListResponse;
    /// Echoes; there to try the experimental gate.
    experimental MockExperimentalMethod = "mock/experimentalMethod" (MockExperimentalMethodParams) -> MockExperimentalMethodResponse;
    /// Signs in to an MCP server.
    stable McpServerOauthLogin = "mcpServer/oauth/login" (McpServerOauthLoginParams) -> McpServerOauthLoginResponse;
    /// Reads the MCP servers from the configuration again.
    stable ConfigMcpServerReload = "config/mcpServer/reload" (NoParams) -> McpServerRefreshResponse;
    /// Pages through MCP servers and what they offer.
    stable McpServerStatusList = "mcpServerStatus/list" (ListMcpServerStatusParams) -> ListMcpServerStatusResponse;
    /// Prepares the Windows sandbox.
    stable WindowsSandboxSetupStart = "windowsSandbox/setupStart" (WindowsSandboxSetupStartParams) -> WindowsSandboxSetupStartResponse;
    /// Signs in.
    stable AccountLoginStart = "account/login/start" (LoginAccountParams) -> LoginAccountResponse;
    /// Gives up a sign-in that is waiting.
    stable AccountLoginCancel = "account/login/cancel" (CancelLoginAccountParams) -> CancelLoginAccountResponse;
    /// Signs out.
    stable AccountLogout = "account/logout" (NoParams) -> LogoutAccountResponse;
    /// Tells how much of the quota is used.
    stable AccountRateLimitsRead = "account/rateLimits/read" (NoParams) -> GetAccountRateLimitsResponse;
    /// Hands in a report.
    stable FeedbackUpload = "feedback/upload" (FeedbackUploadParams) -> FeedbackUploadResponse;
    /// Runs a command without a thread.
    stable CommandExec = "command/exec" (CommandExecParams) -> CommandExecResponse;
    /// Writes to its standard input.
    stable CommandExecWrite = "command/exec/write" (CommandExecWriteParams) -> CommandExecWriteResponse;
    /// Ends it.
    stable CommandExecTerminate = "command/exec/terminate" (CommandExecTerminateParams) -> CommandExecTerminateResponse;
    /// Tells its terminal a new size.
    stable CommandExecResize = "command/exec/resize" (CommandExecResizeParams) -> CommandExecResizeResponse;
    /// Tells the effective configuration and where it comes from.
    stable ConfigRead = "config/read" (ConfigReadParams) -> ConfigReadResponse;
    /// Finds another agent's settings.
    stable ExternalAgentConfigDetect = "externalAgentConfig/detect" (ExternalAgentConfigDetectParams) -> ExternalAgentConfigDetectResponse;
    /// Takes them over.
    stable ExternalAgentConfigImport = "externalAgentConfig/import" (ExternalAgentConfigImportParams) -> ExternalAgentConfigImportResponse;
    /// Changes one value of the configuration.
    stable ConfigValueWrite = "config/value/write" (ConfigValueWriteParams) -> ConfigWriteResponse;
    /// Changes several, all or none.
    stable ConfigBatchWrite = "config/batchWrite" (ConfigBatchWriteParams) -> ConfigWriteResponse;
    /// Tells what an administrator allows.
    stable ConfigRequirementsRead = "configRequirements/read" (NoParams) -> ConfigRequirementsReadResponse;
    /// Tells who is signed in.
    stable AccountRead = "account/read" (GetAccountParams) -> GetAccountResponse;
    /// Finds files by a few letters.
    stable FuzzyFileSearch = "fuzzyFileSearch" (FuzzyFileSearchParams) -> FuzzyFileSearchResponse;
    /// Opens a search that is typed into.
    experimental FuzzyFileSearchSessionStart = "fuzzyFileSearch/sessionStart" (FuzzyFileSearchSessionStartParams) -> FuzzyFileSearchSessionStartResponse;
    /// Changes what it looks for.
    experimental FuzzyFileSearchSessionUpdate = "fuzzyFileSearch/sessionUpdate" (FuzzyFileSearchSessionUpdateParams) -> FuzzyFileSearchSessionUpdateResponse;
    /// Closes it.
    experimental FuzzyFileSearchSessionStop = "fuzzyFileSearch/sessionStop" (FuzzyFileSearchSessionStopParams) -> FuzzyFileSearchSessionStopResponse;
}

requests! {
    /// What clients of later generations call beyond that. Not part of the published schema.
    LATER_REQUESTS;

    /// Lists the permission profiles.
    stable PermissionProfileList = "permissionProfile/list" (PermissionProfileListParams)
        -> PermissionProfileListResponse;
    /// Pages through the turns of a thread.
    stable ThreadTurnsList = "thread/turns/list" (ThreadTurnsListParams) -> ThreadTurnsListResponse;
    /// Pages through the items of a thread.
    stable ThreadItemsList = "thread/items/list" (ThreadItemsListParams) -> ThreadItemsListResponse;
    /// Changes what holds for the next turns.
    stable ThreadSettingsUpdate = "thread/settings/update" (ThreadSettingsUpdateParams)
        -> ThreadSettingsUpdateResponse;
    /// Takes a thread away for good.
    stable ThreadDelete = "thread/delete" (ThreadDeleteParams) -> ThreadDeleteResponse;
    /// Says what a thread works towards.
    stable ThreadGoalSet = "thread/goal/set" (ThreadGoalSetParams) -> ThreadGoalSetResponse;
    /// Tells what that is.
    stable ThreadGoalGet = "thread/goal/get" (ThreadGoalParams) -> ThreadGoalGetResponse;
    /// Takes that away.
    stable ThreadGoalClear = "thread/goal/clear" (ThreadGoalParams) -> ThreadGoalClearResponse;
    /// Lists the commands that have outlived their calls.
    stable ThreadBackgroundTerminalsList = "thread/backgroundTerminals/list" (ThreadBackgroundTerminalsListParams)
        -> ThreadBackgroundTerminalsListResponse;
    /// Ends one of them.
    stable ThreadBackgroundTerminalsTerminate = "thread/backgroundTerminals/terminate" (ThreadBackgroundTerminalsTerminateParams)
        -> ThreadBackgroundTerminalsTerminateResponse;
    /// Lists the hooks that are declared.
    stable HooksList = "hooks/list" (HooksListParams) -> HooksListResponse;
    /// Tells whether a cloud has rules of its own.
    stable BedrockCheckGovCloudRequirements = "account/bedrock/checkGovCloudRequirements"
        (BedrockCheckGovCloudRequirementsParams) -> BedrockCheckGovCloudRequirementsResponse;
}
