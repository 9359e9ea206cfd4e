//! The requests that a client can send, in the order of the protocol's documentation.

use crate::{methods::requests, *};

requests! {
    /// The requests of the published protocol that a client can send.
    CLIENT_REQUESTS;

    /// Starts the session of a connection and exchanges capabilities.
    stable Initialize = "initialize" (InitializeParams) -> InitializeResponse;
    /// Starts a new thread and subscribes the caller to it.
    stable ThreadStart = "thread/start" (ThreadStartParams) -> ThreadStartResponse;
    /// Loads a stored thread, or joins a loaded one, and subscribes the caller to it.
    stable ThreadResume = "thread/resume" (ThreadResumeParams) -> ThreadResumeResponse;
    /// Copies a thread into a new one.
    stable ThreadFork = "thread/fork" (ThreadForkParams) -> ThreadForkResponse;
    /// Archives a thread.
    stable ThreadArchive = "thread/archive" (ThreadArchiveParams) -> ThreadArchiveResponse;
    /// Ends the caller's subscription to a thread.
    stable ThreadUnsubscribe = "thread/unsubscribe" (ThreadUnsubscribeParams) -> ThreadUnsubscribeResponse;
    /// Reports that the client is asking the user something itself. Command timeouts are paused meanwhile.
    experimental ThreadIncrementElicitation = "thread/increment_elicitation" (ThreadIncrementElicitationParams) -> ThreadIncrementElicitationResponse;
    /// Reports that such a question has been answered.
    experimental ThreadDecrementElicitation = "thread/decrement_elicitation" (ThreadDecrementElicitationParams) -> ThreadDecrementElicitationResponse;
    /// Sets the name of a thread.
    stable ThreadNameSet = "thread/name/set" (ThreadSetNameParams) -> ThreadSetNameResponse;
    /// Updates the stored metadata of a thread.
    stable ThreadMetadataUpdate = "thread/metadata/update" (ThreadMetadataUpdateParams) -> ThreadMetadataUpdateResponse;
    /// Restores an archived thread.
    stable ThreadUnarchive = "thread/unarchive" (ThreadUnarchiveParams) -> ThreadUnarchiveResponse;
    /// Starts compacting the model's history of a thread.
    stable ThreadCompactStart = "thread/compact/start" (ThreadCompactStartParams) -> ThreadCompactStartResponse;
    /// Runs a shell command of the user in a thread, outside the sandbox.
    stable ThreadShellCommand = "thread/shellCommand" (ThreadShellCommandParams) -> ThreadShellCommandResponse;
    /// Terminates the background terminals of a thread.
    experimental ThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean" (ThreadBackgroundTerminalsCleanParams) -> ThreadBackgroundTerminalsCleanResponse;
    /// Removes the last turns of a thread.
    stable ThreadRollback = "thread/rollback" (ThreadRollbackParams) -> ThreadRollbackResponse;
    /// Lists stored threads.
    stable ThreadList = "thread/list" (ThreadListParams) -> ThreadListResponse;
    /// Lists the ids of the loaded threads.
    stable ThreadLoadedList = "thread/loaded/list" (ThreadLoadedListParams) -> ThreadLoadedListResponse;
    /// Reads a thread without loading it.
    stable ThreadRead = "thread/read" (ThreadReadParams) -> ThreadReadResponse;
    /// Lists the skills that are available in directories.
    stable SkillsList = "skills/list" (SkillsListParams) -> SkillsListResponse;
    /// Lists marketplaces and the state of their plugins.
    stable PluginList = "plugin/list" (PluginListParams) -> PluginListResponse;
    /// Returns the details of a plugin.
    stable PluginRead = "plugin/read" (PluginReadParams) -> PluginReadResponse;
    /// Lists the apps (connectors) of the account.
    stable AppList = "app/list" (AppsListParams) -> AppsListResponse;
    /// Reads a file.
    stable FsReadFile = "fs/readFile" (FsReadFileParams) -> FsReadFileResponse;
    /// Writes a file.
    stable FsWriteFile = "fs/writeFile" (FsWriteFileParams) -> FsWriteFileResponse;
    /// Creates a directory.
    stable FsCreateDirectory = "fs/createDirectory" (FsCreateDirectoryParams) -> FsCreateDirectoryResponse;
    /// Returns the metadata of a path.
    stable FsGetMetadata = "fs/getMetadata" (FsGetMetadataParams) -> FsGetMetadataResponse;
    /// Lists a directory.
    stable FsReadDirectory = "fs/readDirectory" (FsReadDirectoryParams) -> FsReadDirectoryResponse;
    /// Removes a file or directory.
    stable FsRemove = "fs/remove" (FsRemoveParams) -> FsRemoveResponse;
    /// Copies a file or directory.
    stable FsCopy = "fs/copy" (FsCopyParams) -> FsCopyResponse;
    /// Starts reporting changes at a path.
    stable FsWatch = "fs/watch" (FsWatchParams) -> FsWatchResponse;
    /// Stops reporting changes at a path.
    stable FsUnwatch = "fs/unwatch" (FsUnwatchParams) -> FsUnwatchResponse;
    /// Enables or disables a skill.
    stable SkillsConfigWrite = "skills/config/write" (SkillsConfigWriteParams) -> SkillsConfigWriteResponse;
    /// Installs a plugin from a marketplace.
    stable PluginInstall = "plugin/install" (PluginInstallParams) -> PluginInstallResponse;
    /// Removes an installed plugin.
    stable PluginUninstall = "plugin/uninstall" (PluginUninstallParams) -> PluginUninstallResponse;
    /// Adds user input to a thread and starts a turn.
    stable TurnStart = "turn/start" (TurnStartParams) -> TurnStartResponse;
    /// Adds user input to the running turn.
    stable TurnSteer = "turn/steer" (TurnSteerParams) -> TurnSteerResponse;
    /// Interrupts the running turn.
    stable TurnInterrupt = "turn/interrupt" (TurnInterruptParams) -> TurnInterruptResponse;
    /// Starts a voice session on a thread.
    experimental ThreadRealtimeStart = "thread/realtime/start" (ThreadRealtimeStartParams) -> ThreadRealtimeStartResponse;
    /// Sends audio to a voice session.
    experimental ThreadRealtimeAppendAudio = "thread/realtime/appendAudio" (ThreadRealtimeAppendAudioParams) -> ThreadRealtimeAppendAudioResponse;
    /// Sends text to a voice session.
    experimental ThreadRealtimeAppendText = "thread/realtime/appendText" (ThreadRealtimeAppendTextParams) -> ThreadRealtimeAppendTextResponse;
    /// Ends a voice session.
    experimental ThreadRealtimeStop = "thread/realtime/stop" (ThreadRealtimeStopParams) -> ThreadRealtimeStopResponse;
    /// Starts a review of the changes in a repository.
    stable ReviewStart = "review/start" (ReviewStartParams) -> ReviewStartResponse;
    /// Lists the available models.
    stable ModelList = "model/list" (ModelListParams) -> ModelListResponse;
    /// Lists feature flags.
    stable ExperimentalFeatureList = "experimentalFeature/list" (ExperimentalFeatureListParams) -> ExperimentalFeatureListResponse;
    /// Enables or disables features until the server exits.
    stable ExperimentalFeatureEnablementSet = "experimentalFeature/enablement/set" (ExperimentalFeatureEnablementSetParams) -> ExperimentalFeatureEnablementSetResponse;
    /// Lists the collaboration mode presets.
    experimental CollaborationModeList = "collaborationMode/list" (CollaborationModeListParams) -> CollaborationModeListResponse;
    /// Echoes a value, for testing the experimental gate.
    experimental MockExperimentalMethod = "mock/experimentalMethod" (MockExperimentalMethodParams) -> MockExperimentalMethodResponse;
    /// Starts an OAuth sign-in to an MCP server.
    stable McpServerOauthLogin = "mcpServer/oauth/login" (McpServerOauthLoginParams) -> McpServerOauthLoginResponse;
    /// Reloads the MCP servers from the configuration.
    stable ConfigMcpServerReload = "config/mcpServer/reload" (NoParams) -> McpServerRefreshResponse;
    /// Lists MCP servers with their tools and resources.
    stable McpServerStatusList = "mcpServerStatus/list" (ListMcpServerStatusParams) -> ListMcpServerStatusResponse;
    /// Starts setting up the Windows sandbox.
    stable WindowsSandboxSetupStart = "windowsSandbox/setupStart" (WindowsSandboxSetupStartParams) -> WindowsSandboxSetupStartResponse;
    /// Starts a sign-in.
    stable AccountLoginStart = "account/login/start" (LoginAccountParams) -> LoginAccountResponse;
    /// Cancels a pending sign-in.
    stable AccountLoginCancel = "account/login/cancel" (CancelLoginAccountParams) -> CancelLoginAccountResponse;
    /// Signs out.
    stable AccountLogout = "account/logout" (NoParams) -> LogoutAccountResponse;
    /// Returns the rate limits of the account.
    stable AccountRateLimitsRead = "account/rateLimits/read" (NoParams) -> GetAccountRateLimitsResponse;
    /// Submits a feedback report.
    stable FeedbackUpload = "feedback/upload" (FeedbackUploadParams) -> FeedbackUploadResponse;
    /// Runs a command outside any thread.
    stable CommandExec = "command/exec" (CommandExecParams) -> CommandExecResponse;
    /// Writes to the standard input of a `command/exec` process.
    stable CommandExecWrite = "command/exec/write" (CommandExecWriteParams) -> CommandExecWriteResponse;
    /// Terminates a `command/exec` process.
    stable CommandExecTerminate = "command/exec/terminate" (CommandExecTerminateParams) -> CommandExecTerminateResponse;
    /// Resizes the terminal of a `command/exec` process.
    stable CommandExecResize = "command/exec/resize" (CommandExecResizeParams) -> CommandExecResizeResponse;
    /// Returns the effective configuration and the origin of each value.
    stable ConfigRead = "config/read" (ConfigReadParams) -> ConfigReadResponse;
    /// Detects settings of other agents that can be imported.
    stable ExternalAgentConfigDetect = "externalAgentConfig/detect" (ExternalAgentConfigDetectParams) -> ExternalAgentConfigDetectResponse;
    /// Imports settings of other agents.
    stable ExternalAgentConfigImport = "externalAgentConfig/import" (ExternalAgentConfigImportParams) -> ExternalAgentConfigImportResponse;
    /// Writes one value of the user configuration.
    stable ConfigValueWrite = "config/value/write" (ConfigValueWriteParams) -> ConfigWriteResponse;
    /// Writes several values of the user configuration, all or none.
    stable ConfigBatchWrite = "config/batchWrite" (ConfigBatchWriteParams) -> ConfigWriteResponse;
    /// Returns the limits set by an administrator.
    stable ConfigRequirementsRead = "configRequirements/read" (NoParams) -> ConfigRequirementsReadResponse;
    /// Returns the account that is signed in.
    stable AccountRead = "account/read" (GetAccountParams) -> GetAccountResponse;
    /// Finds files by a fuzzy query.
    stable FuzzyFileSearch = "fuzzyFileSearch" (FuzzyFileSearchParams) -> FuzzyFileSearchResponse;
    /// Starts a search session, whose query can be changed.
    experimental FuzzyFileSearchSessionStart = "fuzzyFileSearch/sessionStart" (FuzzyFileSearchSessionStartParams) -> FuzzyFileSearchSessionStartResponse;
    /// Changes the query of a search session.
    experimental FuzzyFileSearchSessionUpdate = "fuzzyFileSearch/sessionUpdate" (FuzzyFileSearchSessionUpdateParams) -> FuzzyFileSearchSessionUpdateResponse;
    /// Ends a search session.
    experimental FuzzyFileSearchSessionStop = "fuzzyFileSearch/sessionStop" (FuzzyFileSearchSessionStopParams) -> FuzzyFileSearchSessionStopResponse;
}

requests! {
    /// Requests of newer clients that are not part of the published schema.
    LATER_REQUESTS;

    /// Lists the permission profiles.
    stable PermissionProfileList = "permissionProfile/list" (PermissionProfileListParams)
        -> PermissionProfileListResponse;
    /// Lists the turns of a thread.
    stable ThreadTurnsList = "thread/turns/list" (ThreadTurnsListParams) -> ThreadTurnsListResponse;
    /// Lists the items of a thread.
    stable ThreadItemsList = "thread/items/list" (ThreadItemsListParams) -> ThreadItemsListResponse;
    /// Changes the settings for the next turns of a thread.
    stable ThreadSettingsUpdate = "thread/settings/update" (ThreadSettingsUpdateParams)
        -> ThreadSettingsUpdateResponse;
    /// Removes a turn of a thread and all turns after it.
    stable ThreadRevert = "thread/revert" (ThreadRevertParams) -> ThreadRevertResponse;
    /// Adds items to the model's history of a thread.
    stable ThreadInjectItems = "thread/inject_items" (ThreadInjectItemsParams) -> ThreadInjectItemsResponse;
    /// Deletes a thread.
    stable ThreadDelete = "thread/delete" (ThreadDeleteParams) -> ThreadDeleteResponse;
    /// Sets or changes the goal of a thread.
    stable ThreadGoalSet = "thread/goal/set" (ThreadGoalSetParams) -> ThreadGoalSetResponse;
    /// Returns the goal of a thread.
    stable ThreadGoalGet = "thread/goal/get" (ThreadGoalParams) -> ThreadGoalGetResponse;
    /// Removes the goal of a thread.
    stable ThreadGoalClear = "thread/goal/clear" (ThreadGoalParams) -> ThreadGoalClearResponse;
    /// Lists the background terminals of a thread.
    stable ThreadBackgroundTerminalsList = "thread/backgroundTerminals/list" (ThreadBackgroundTerminalsListParams)
        -> ThreadBackgroundTerminalsListResponse;
    /// Terminates a background terminal.
    stable ThreadBackgroundTerminalsTerminate = "thread/backgroundTerminals/terminate" (ThreadBackgroundTerminalsTerminateParams)
        -> ThreadBackgroundTerminalsTerminateResponse;
    /// Lists the declared hooks.
    stable HooksList = "hooks/list" (HooksListParams) -> HooksListResponse;
    /// Returns whether GovCloud requirements apply to Bedrock.
    stable BedrockCheckGovCloudRequirements = "account/bedrock/checkGovCloudRequirements"
        (BedrockCheckGovCloudRequirementsParams) -> BedrockCheckGovCloudRequirementsResponse;
}
