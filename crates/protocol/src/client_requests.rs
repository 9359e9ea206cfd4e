//! The requests that a client can send, of both generations, in the order of the protocol's documentation.
//!
//! The first column is the generation: `v118` has been removed in 0.166, `v166` has been added, `both` has been kept. The
//! second column is the stability. `refused` marks a request that this server does not serve: it has no handler, and the
//! router refuses it with one sentence. A `?` after the params says that a client may leave them out.

use crate::{methods::requests, *};

requests! {
    /// The requests of the published protocol that a client can send.
    CLIENT_REQUESTS;

    /// Starts the session of a connection and exchanges capabilities.
    both stable Initialize = "initialize" (InitializeParams) -> InitializeResponse;
    /// Returns the memory and load of the server.
    v166 experimental ServerDiagnostics = "server/diagnostics" (ServerDiagnosticsParams) -> ServerDiagnosticsResponse;
    /// Returns whether the user can be verified on this machine.
    v166 experimental UserVerificationStatus = "userVerification/status" (UserVerificationStatusParams) -> UserVerificationStatusResponse;
    /// Creates a credential with which the user is verified.
    v166 experimental UserVerificationEnroll = "userVerification/enroll" (UserVerificationEnrollParams) -> UserVerificationEnrollResponse;
    /// Deletes the credential.
    v166 experimental UserVerificationDelete = "userVerification/delete" (UserVerificationDeleteParams) -> UserVerificationDeleteResponse;
    /// Verifies the user and signs a challenge.
    v166 experimental UserVerificationVerify = "userVerification/verify" (UserVerificationVerifyParams) -> UserVerificationVerifyResponse;
    /// Cancels a verification.
    v166 experimental UserVerificationCancel = "userVerification/cancel" (UserVerificationCancelParams) -> UserVerificationCancelResponse;
    /// Starts a new thread and subscribes the caller to it.
    both stable ThreadStart = "thread/start" (ThreadStartParams) -> ThreadStartResponse;
    /// Loads a stored thread, or joins a loaded one, and subscribes the caller to it.
    both stable ThreadResume = "thread/resume" (ThreadResumeParams) -> ThreadResumeResponse;
    /// Copies a thread into a new one.
    both stable ThreadFork = "thread/fork" (ThreadForkParams) -> ThreadForkResponse;
    /// Sends one request to the model on a snapshot of a thread.
    v166 experimental ThreadSample = "thread/sample" (ThreadSampleParams) -> ThreadSampleResponse;
    /// Cancels a `thread/sample` request of this connection.
    v166 experimental ThreadSampleCancel = "thread/sample/cancel" (ThreadSampleCancelParams) -> ThreadSampleCancelResponse;
    /// Archives a thread.
    both stable ThreadArchive = "thread/archive" (ThreadArchiveParams) -> ThreadArchiveResponse;
    /// Deletes a thread.
    v166 stable ThreadDelete = "thread/delete" (ThreadDeleteParams) -> ThreadDeleteResponse;
    /// Ends the caller's subscription to a thread.
    both stable ThreadUnsubscribe = "thread/unsubscribe" (ThreadUnsubscribeParams) -> ThreadUnsubscribeResponse;
    /// Reports that the client is asking the user something itself. Command timeouts are paused meanwhile.
    both experimental ThreadIncrementElicitation = "thread/increment_elicitation" (ThreadIncrementElicitationParams) -> ThreadIncrementElicitationResponse;
    /// Reports that such a question has been answered.
    both experimental ThreadDecrementElicitation = "thread/decrement_elicitation" (ThreadDecrementElicitationParams) -> ThreadDecrementElicitationResponse;
    /// Sets the name of a thread.
    both stable ThreadNameSet = "thread/name/set" (ThreadSetNameParams) -> ThreadSetNameResponse;
    /// Asks for a prediction of what the user writes next.
    v166 experimental ThreadPredictionRequest = "thread/prediction/request" (ThreadPredictionRequestParams) -> ThreadPredictionRequestResponse;
    /// Sets or changes the goal of a thread.
    v166 stable ThreadGoalSet = "thread/goal/set" (ThreadGoalSetParams) -> ThreadGoalSetResponse;
    /// Returns the goal of a thread.
    v166 stable ThreadGoalGet = "thread/goal/get" (ThreadGoalGetParams) -> ThreadGoalGetResponse;
    /// Removes the goal of a thread.
    v166 stable ThreadGoalClear = "thread/goal/clear" (ThreadGoalClearParams) -> ThreadGoalClearResponse;
    /// Adds input to the queue of a thread.
    v166 experimental ThreadQueueAdd = "thread/queue/add" (ThreadQueueAddParams) -> ThreadQueueAddResponse;
    /// Lists the queue of a thread.
    v166 experimental ThreadQueueList = "thread/queue/list" (ThreadQueueListParams) -> ThreadQueueListResponse;
    /// Replaces the input of a queued entry.
    v166 experimental ThreadQueueUpdate = "thread/queue/update" (ThreadQueueUpdateParams) -> ThreadQueueUpdateResponse;
    /// Removes an entry from the queue.
    v166 experimental ThreadQueueDelete = "thread/queue/delete" (ThreadQueueDeleteParams) -> ThreadQueueDeleteResponse;
    /// Changes the order of the queue.
    v166 experimental ThreadQueueReorder = "thread/queue/reorder" (ThreadQueueReorderParams) -> ThreadQueueReorderResponse;
    /// Starts a turn with queued input at once.
    v166 experimental ThreadQueueStart = "thread/queue/start" (ThreadQueueStartParams) -> ThreadQueueStartResponse;
    /// Updates the stored metadata of a thread.
    both stable ThreadMetadataUpdate = "thread/metadata/update" (ThreadMetadataUpdateParams) -> ThreadMetadataUpdateResponse;
    /// Attaches data to a thread.
    v166 stable ThreadAttachmentAdd = "thread/attachment/add" (ThreadAttachmentAddParams) -> ThreadAttachmentAddResponse;
    /// Lists the attachments of a thread.
    v166 stable ThreadAttachmentList = "thread/attachment/list" (ThreadAttachmentListParams) -> ThreadAttachmentListResponse;
    /// Lists the threads that have an attachment of a kind and key.
    v166 stable ThreadAttachmentOwnerList = "thread/attachmentOwner/list" (ThreadAttachmentOwnerListParams) -> ThreadAttachmentOwnerListResponse;
    /// Removes an attachment from a thread.
    v166 stable ThreadAttachmentRemove = "thread/attachment/remove" (ThreadAttachmentRemoveParams) -> ThreadAttachmentRemoveResponse;
    /// Moves a thread into a section, or within one.
    v166 stable ThreadSectionMove = "thread/section/move" (ThreadSectionMoveParams) -> ThreadSectionMoveResponse;
    /// Changes the settings for the next turns of a thread.
    v166 experimental ThreadSettingsUpdate = "thread/settings/update" (ThreadSettingsUpdateParams) -> ThreadSettingsUpdateResponse;
    /// Sets whether memories are made of a thread.
    v166 experimental ThreadMemoryModeSet = "thread/memoryMode/set" (ThreadMemoryModeSetParams) -> ThreadMemoryModeSetResponse;
    /// Reads the memory of a thread.
    v166 experimental ThreadMemoryRead = "thread/memory/read" (ThreadMemoryReadParams) -> ThreadMemoryReadResponse;
    /// Returns whether there are enough memories to use them.
    v166 experimental MemoryStatus = "memory/status" (MemoryStatusParams) -> MemoryStatusResponse;
    /// Deletes all memories.
    v166 experimental MemoryReset = "memory/reset" (NoParams) -> MemoryResetResponse;
    /// Compresses the files of old threads.
    v166 experimental RolloutCompress = "rollout/compress" (NoParams) -> RolloutCompressResponse;
    /// Restores an archived thread.
    both stable ThreadUnarchive = "thread/unarchive" (ThreadUnarchiveParams) -> ThreadUnarchiveResponse;
    /// Starts compacting the model's history of a thread.
    both stable ThreadCompactStart = "thread/compact/start" (ThreadCompactStartParams) -> ThreadCompactStartResponse;
    /// Runs a shell command of the user in a thread, outside the sandbox.
    both stable ThreadShellCommand = "thread/shellCommand" (ThreadShellCommandParams) -> ThreadShellCommandResponse;
    /// Permits an action that the guardian denied.
    v166 stable ThreadApproveGuardianDeniedAction = "thread/approveGuardianDeniedAction" (ThreadApproveGuardianDeniedActionParams) -> ThreadApproveGuardianDeniedActionResponse;
    /// Terminates the background terminals of a thread.
    both experimental ThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean" (ThreadBackgroundTerminalsCleanParams) -> ThreadBackgroundTerminalsCleanResponse;
    /// Lists the background terminals of a thread.
    v166 experimental ThreadBackgroundTerminalsList = "thread/backgroundTerminals/list" (ThreadBackgroundTerminalsListParams) -> ThreadBackgroundTerminalsListResponse;
    /// Terminates a background terminal.
    v166 experimental ThreadBackgroundTerminalsTerminate = "thread/backgroundTerminals/terminate" (ThreadBackgroundTerminalsTerminateParams) -> ThreadBackgroundTerminalsTerminateResponse;
    /// Removes a turn of a thread and all turns after it.
    v166 stable ThreadRevert = "thread/revert" (ThreadRevertParams) -> ThreadRevertResponse;
    /// Removes the last turns of a thread.
    v118 stable ThreadRollback = "thread/rollback" (ThreadRollbackParams) -> ThreadRollbackResponse;
    /// Lists stored threads.
    both stable ThreadList = "thread/list" (ThreadListParams) -> ThreadListResponse;
    /// Lists the projects.
    v166 experimental ProjectList = "project/list" (ProjectListParams) -> ProjectListResponse;
    /// Reads a project.
    v166 experimental ProjectRead = "project/read" (ProjectReadParams) -> ProjectReadResponse;
    /// Creates a project.
    v166 experimental ProjectCreate = "project/create" (ProjectCreateParams) -> ProjectCreateResponse;
    /// Creates a project with threads that exist already.
    v166 experimental ProjectImport = "project/import" (ProjectImportParams) -> ProjectImportResponse;
    /// Changes a project.
    v166 experimental ProjectUpdate = "project/update" (ProjectUpdateParams) -> ProjectUpdateResponse;
    /// Changes the position of a project.
    v166 experimental ProjectMove = "project/move" (ProjectMoveParams) -> ProjectMoveResponse;
    /// Deletes a project.
    v166 experimental ProjectDelete = "project/delete" (ProjectDeleteParams) -> ProjectDeleteResponse;
    /// Lists the sections.
    v166 stable ThreadSectionList = "threadSection/list" (ThreadSectionListParams) -> ThreadSectionListResponse;
    /// Adds a section after the others.
    v166 stable ThreadSectionCreate = "threadSection/create" (ThreadSectionCreateParams) -> ThreadSectionCreateResponse;
    /// Changes a section.
    v166 stable ThreadSectionUpdate = "threadSection/update" (ThreadSectionUpdateParams) -> ThreadSectionUpdateResponse;
    /// Deletes a section.
    v166 stable ThreadSectionDelete = "threadSection/delete" (ThreadSectionDeleteParams) -> ThreadSectionDeleteResponse;
    /// Finds threads that contain a text.
    v166 experimental ThreadSearch = "thread/search" (ThreadSearchParams) -> ThreadSearchResponse;
    /// Finds the occurrences of a text in a thread.
    v166 experimental ThreadSearchOccurrences = "thread/searchOccurrences" (ThreadSearchOccurrencesParams) -> ThreadSearchOccurrencesResponse;
    /// Lists the ids of the loaded threads.
    both stable ThreadLoadedList = "thread/loaded/list" (ThreadLoadedListParams) -> ThreadLoadedListResponse;
    /// Reads a thread without loading it.
    both stable ThreadRead = "thread/read" (ThreadReadParams) -> ThreadReadResponse;
    /// Marks a thread as read or unread.
    v166 experimental ThreadReadStateUpdate = "thread/readState/update" (ThreadReadStateUpdateParams) -> ThreadReadStateUpdateResponse;
    /// Lists the turns of a thread.
    v166 stable ThreadTurnsList = "thread/turns/list" (ThreadTurnsListParams) -> ThreadTurnsListResponse;
    /// Lists the items of a thread.
    v166 stable ThreadItemsList = "thread/items/list" (ThreadItemsListParams) -> ThreadItemsListResponse;
    /// Reads items of a turn.
    v166 experimental ThreadItemsRead = "thread/items/read" (ThreadItemsReadParams) -> ThreadItemsReadResponse;
    /// Adds items to the model's history of a thread.
    v166 stable ThreadInjectItems = "thread/inject_items" (ThreadInjectItemsParams) -> ThreadInjectItemsResponse;
    /// Lists the skills that are available in directories.
    both stable SkillsList = "skills/list" (SkillsListParams) -> SkillsListResponse;
    /// Replaces the additional directories with skills.
    v166 stable SkillsExtraRootsSet = "skills/extraRoots/set" (SkillsExtraRootsSetParams) -> SkillsExtraRootsSetResponse;
    /// Lists the declared hooks.
    v166 stable HooksList = "hooks/list" (HooksListParams) -> HooksListResponse;
    /// Adds a marketplace.
    v166 stable MarketplaceAdd = "marketplace/add" (MarketplaceAddParams) -> MarketplaceAddResponse;
    /// Removes a marketplace.
    v166 stable MarketplaceRemove = "marketplace/remove" (MarketplaceRemoveParams) -> MarketplaceRemoveResponse;
    /// Fetches the current state of marketplaces.
    v166 stable MarketplaceUpgrade = "marketplace/upgrade" (MarketplaceUpgradeParams) -> MarketplaceUpgradeResponse;
    /// Lists marketplaces and the state of their plugins.
    both stable PluginList = "plugin/list" (PluginListParams) -> PluginListResponse;
    /// Searches for plugins.
    v166 experimental PluginSearch = "plugin/search" (PluginSearchParams) -> PluginSearchResponse;
    /// Lists the installed plugins.
    v166 stable PluginInstalled = "plugin/installed" (PluginInstalledParams) -> PluginInstalledResponse;
    /// Brings the installed plugins in line with those of the account.
    v166 stable PluginReconcile = "plugin/reconcile" (PluginReconcileParams) -> PluginReconcileResponse;
    /// Returns the details of a plugin.
    both stable PluginRead = "plugin/read" (PluginReadParams) -> PluginReadResponse;
    /// Reads a skill of a plugin that is not installed.
    v166 stable PluginSkillRead = "plugin/skill/read" (PluginSkillReadParams) -> PluginSkillReadResponse;
    /// Uploads a plugin, or a new version of it.
    v166 stable PluginShareSave = "plugin/share/save" (PluginShareSaveParams) -> PluginShareSaveResponse;
    /// Changes with whom a plugin is shared.
    v166 stable PluginShareUpdateTargets = "plugin/share/updateTargets" (PluginShareUpdateTargetsParams) -> PluginShareUpdateTargetsResponse;
    /// Lists the plugins that the user shares.
    v166 stable PluginShareList = "plugin/share/list" (PluginShareListParams) -> PluginShareListResponse;
    /// Downloads a shared plugin for editing.
    v166 stable PluginShareCheckout = "plugin/share/checkout" (PluginShareCheckoutParams) -> PluginShareCheckoutResponse;
    /// Stops sharing a plugin.
    v166 stable PluginShareDelete = "plugin/share/delete" (PluginShareDeleteParams) -> PluginShareDeleteResponse;
    /// Returns the details of apps.
    v166 stable AppRead = "app/read" (AppsReadParams) -> AppsReadResponse;
    /// Lists the apps (connectors) of the account.
    both stable AppList = "app/list" (AppsListParams) -> AppsListResponse;
    /// Lists the apps that are installed.
    v166 stable AppInstalled = "app/installed" (AppsInstalledParams) -> AppsInstalledResponse;
    /// Reads a file.
    both stable FsReadFile = "fs/readFile" (FsReadFileParams) -> FsReadFileResponse;
    /// Writes a file.
    both stable FsWriteFile = "fs/writeFile" (FsWriteFileParams) -> FsWriteFileResponse;
    /// Creates a directory.
    both stable FsCreateDirectory = "fs/createDirectory" (FsCreateDirectoryParams) -> FsCreateDirectoryResponse;
    /// Returns the metadata of a path.
    both stable FsGetMetadata = "fs/getMetadata" (FsGetMetadataParams) -> FsGetMetadataResponse;
    /// Lists a directory.
    both stable FsReadDirectory = "fs/readDirectory" (FsReadDirectoryParams) -> FsReadDirectoryResponse;
    /// Removes a file or directory.
    both stable FsRemove = "fs/remove" (FsRemoveParams) -> FsRemoveResponse;
    /// Copies a file or directory.
    both stable FsCopy = "fs/copy" (FsCopyParams) -> FsCopyResponse;
    /// Starts reporting changes at a path.
    both stable FsWatch = "fs/watch" (FsWatchParams) -> FsWatchResponse;
    /// Stops reporting changes at a path.
    both stable FsUnwatch = "fs/unwatch" (FsUnwatchParams) -> FsUnwatchResponse;
    /// Enables or disables a skill.
    both stable SkillsConfigWrite = "skills/config/write" (SkillsConfigWriteParams) -> SkillsConfigWriteResponse;
    /// Installs a plugin from a marketplace.
    both stable PluginInstall = "plugin/install" (PluginInstallParams) -> PluginInstallResponse;
    /// Removes an installed plugin.
    both stable PluginUninstall = "plugin/uninstall" (PluginUninstallParams) -> PluginUninstallResponse;
    /// Adds user input to a thread and starts a turn.
    both stable TurnStart = "turn/start" (TurnStartParams) -> TurnStartResponse;
    /// Changes the settings of a running turn.
    v166 experimental TurnSettingsUpdate = "turn/settings/update" (TurnSettingsUpdateParams) -> TurnSettingsUpdateResponse;
    /// Adds user input to the running turn.
    both stable TurnSteer = "turn/steer" (TurnSteerParams) -> TurnSteerResponse;
    /// Interrupts the running turn.
    both stable TurnInterrupt = "turn/interrupt" (TurnInterruptParams) -> TurnInterruptResponse;
    /// Starts a voice session on a thread.
    both experimental ThreadRealtimeStart = "thread/realtime/start" (ThreadRealtimeStartParams) -> ThreadRealtimeStartResponse;
    /// Sends audio to a voice session.
    both experimental ThreadRealtimeAppendAudio = "thread/realtime/appendAudio" (ThreadRealtimeAppendAudioParams) -> ThreadRealtimeAppendAudioResponse;
    /// Sends text to a voice session.
    both experimental ThreadRealtimeAppendText = "thread/realtime/appendText" (ThreadRealtimeAppendTextParams) -> ThreadRealtimeAppendTextResponse;
    /// Lets the voice model say a text.
    v166 experimental ThreadRealtimeAppendSpeech = "thread/realtime/appendSpeech" (ThreadRealtimeAppendSpeechParams) -> ThreadRealtimeAppendSpeechResponse;
    /// Ends a voice session.
    both experimental ThreadRealtimeStop = "thread/realtime/stop" (ThreadRealtimeStopParams) -> ThreadRealtimeStopResponse;
    /// Lists what happened in a thread.
    v166 experimental ThreadTimelineList = "thread/timeline/list" (ThreadTimelineListParams) -> ThreadTimelineListResponse;
    /// Lists the voices.
    v166 experimental ThreadRealtimeListVoices = "thread/realtime/listVoices" (ThreadRealtimeListVoicesParams) -> ThreadRealtimeListVoicesResponse;
    /// Starts a review of the changes in a repository.
    both stable ReviewStart = "review/start" (ReviewStartParams) -> ReviewStartResponse;
    /// Lists the available models.
    both stable ModelList = "model/list" (ModelListParams) -> ModelListResponse;
    /// Returns the sign-in to the gateway of the current provider.
    v166 stable GatewayOAuthRead = "account/gatewayOAuth/read" (NoParams) -> GatewayOAuthReadResponse;
    /// Starts a sign-in to the gateway of the current provider.
    v166 stable GatewayOAuthLogin = "account/gatewayOAuth/login" (NoParams) -> GatewayOAuthLoginResponse;
    /// Cancels a sign-in to the gateway of the current provider.
    v166 stable GatewayOAuthCancel = "account/gatewayOAuth/cancel" (NoParams) -> GatewayOAuthCancelResponse;
    /// Returns what the current provider can do.
    v166 stable ModelProviderCapabilitiesRead = "modelProvider/capabilities/read" (ModelProviderCapabilitiesReadParams) -> ModelProviderCapabilitiesReadResponse;
    /// Lists feature flags.
    both stable ExperimentalFeatureList = "experimentalFeature/list" (ExperimentalFeatureListParams) -> ExperimentalFeatureListResponse;
    /// Lists the permission profiles.
    v166 stable PermissionProfileList = "permissionProfile/list" (PermissionProfileListParams) -> PermissionProfileListResponse;
    /// Enables or disables features until the server exits.
    both stable ExperimentalFeatureEnablementSet = "experimentalFeature/enablement/set" (ExperimentalFeatureEnablementSetParams) -> ExperimentalFeatureEnablementSetResponse;
    /// Connects to the service for remote control.
    v166 experimental RemoteControlEnable = "remoteControl/enable" (RemoteControlEnableParams?) -> RemoteControlEnableResponse;
    /// Disconnects from the service for remote control.
    v166 experimental RemoteControlDisable = "remoteControl/disable" (RemoteControlDisableParams?) -> RemoteControlDisableResponse;
    /// Returns whether the server is connected to the service for remote control.
    v166 experimental RemoteControlStatusRead = "remoteControl/status/read" (NoParams) -> RemoteControlStatusReadResponse;
    /// Starts pairing a device.
    v166 experimental RemoteControlPairingStart = "remoteControl/pairing/start" (RemoteControlPairingStartParams) -> RemoteControlPairingStartResponse;
    /// Returns whether a device has used a pairing code.
    v166 experimental RemoteControlPairingStatus = "remoteControl/pairing/status" (RemoteControlPairingStatusParams) -> RemoteControlPairingStatusResponse;
    /// Lists the paired devices.
    v166 experimental RemoteControlClientList = "remoteControl/client/list" (RemoteControlClientsListParams) -> RemoteControlClientsListResponse;
    /// Removes a paired device.
    v166 experimental RemoteControlClientRevoke = "remoteControl/client/revoke" (RemoteControlClientsRevokeParams) -> RemoteControlClientsRevokeResponse;
    /// Lists the collaboration mode presets.
    both experimental CollaborationModeList = "collaborationMode/list" (CollaborationModeListParams) -> CollaborationModeListResponse;
    /// Echoes a value, for testing the experimental gate.
    both experimental MockExperimentalMethod = "mock/experimentalMethod" (MockExperimentalMethodParams) -> MockExperimentalMethodResponse;
    /// Adds an environment that runs commands through an exec server.
    v166 experimental EnvironmentAdd = "environment/add" (EnvironmentAddParams) -> EnvironmentAddResponse;
    /// Returns the shell and working directory of an environment.
    v166 experimental EnvironmentInfo = "environment/info" (EnvironmentInfoParams) -> EnvironmentInfoResponse;
    /// Returns whether an environment can be used.
    v166 experimental EnvironmentStatus = "environment/status" (EnvironmentStatusParams) -> EnvironmentStatusResponse;
    /// Starts an OAuth sign-in to an MCP server.
    both stable McpServerOauthLogin = "mcpServer/oauth/login" (McpServerOauthLoginParams) -> McpServerOauthLoginResponse;
    /// Reloads the MCP servers from the configuration.
    both stable ConfigMcpServerReload = "config/mcpServer/reload" (NoParams) -> McpServerRefreshResponse;
    /// Lists MCP servers with their tools and resources.
    both stable McpServerStatusList = "mcpServerStatus/list" (ListMcpServerStatusParams) -> ListMcpServerStatusResponse;
    /// Reads a resource of an MCP server.
    v166 stable McpServerResourceRead = "mcpServer/resource/read" (McpResourceReadParams) -> McpResourceReadResponse;
    /// Starts a stream of events of an MCP server.
    v166 experimental McpServerEventStreamStart = "mcpServer/event/stream/start" (McpServerEventStreamStartParams) -> McpServerEventStreamStartResponse;
    /// Ends a stream of events.
    v166 experimental McpServerEventStreamStop = "mcpServer/event/stream/stop" (McpServerEventStreamStopParams) -> McpServerEventStreamStopResponse;
    /// Calls a tool of an MCP server of a thread.
    v166 stable McpServerToolCall = "mcpServer/tool/call" (McpServerToolCallParams) -> McpServerToolCallResponse;
    /// Starts setting up the Windows sandbox.
    both stable WindowsSandboxSetupStart = "windowsSandbox/setupStart" (WindowsSandboxSetupStartParams) -> WindowsSandboxSetupStartResponse;
    /// Returns whether the Windows sandbox can be used.
    v166 stable WindowsSandboxReadinessRead = "windowsSandbox/readiness" (NoParams) -> WindowsSandboxReadinessResponse;
    /// Starts a sign-in.
    both stable AccountLoginStart = "account/login/start" (LoginAccountParams) -> LoginAccountResponse;
    /// Finds credentials for Amazon Bedrock on this machine.
    v166 experimental BedrockDiscover = "account/bedrock/discover" (BedrockDiscoverParams) -> BedrockDiscoverResponse;
    /// Selects the credentials for Amazon Bedrock.
    v166 experimental BedrockSetup = "account/bedrock/setup" (BedrockSetupParams) -> BedrockSetupResponse;
    /// Sets up models on Google Cloud.
    v166 experimental GcpSetup = "account/gcp/setup" (GcpSetupParams) -> GcpSetupResponse;
    /// Returns whether GovCloud requirements apply to Bedrock.
    v166 experimental BedrockCheckGovCloudRequirements = "account/bedrock/checkGovCloudRequirements" (BedrockCheckGovCloudRequirementsParams) -> BedrockCheckGovCloudRequirementsResponse;
    /// Cancels a pending sign-in.
    both stable AccountLoginCancel = "account/login/cancel" (CancelLoginAccountParams) -> CancelLoginAccountResponse;
    /// Lists the accounts that are signed in.
    v166 experimental AccountSessionList = "accountSession/list" (AccountSessionsListParams) -> AccountSessionsResponse;
    /// Changes the active account.
    v166 experimental AccountSessionSwitch = "accountSession/switch" (AccountSessionsSwitchParams) -> AccountSessionsSwitchResponse;
    /// Signs out.
    both stable AccountLogout = "account/logout" (NoParams) -> LogoutAccountResponse;
    /// Returns the rate limits of the account.
    both stable AccountRateLimitsRead = "account/rateLimits/read" (GetAccountRateLimitsParams?) -> GetAccountRateLimitsResponse;
    /// Uses a credit to reset the rate limits.
    v166 stable AccountRateLimitResetCreditConsume = "account/rateLimitResetCredit/consume" (ConsumeAccountRateLimitResetCreditParams) -> ConsumeAccountRateLimitResetCreditResponse;
    /// Returns the token usage of the account.
    v166 stable AccountUsageRead = "account/usage/read" (GetAccountTokenUsageParams?) -> GetAccountTokenUsageResponse;
    /// Returns messages of the administrators of the workspace.
    v166 stable AccountWorkspaceMessagesRead = "account/workspaceMessages/read" (NoParams) -> GetWorkspaceMessagesResponse;
    /// Asks the owner of a workspace for credits, by e-mail.
    v166 stable AccountSendAddCreditsNudgeEmail = "account/sendAddCreditsNudgeEmail" (SendAddCreditsNudgeEmailParams) -> SendAddCreditsNudgeEmailResponse;
    /// Submits a feedback report.
    both stable FeedbackUpload = "feedback/upload" (FeedbackUploadParams) -> FeedbackUploadResponse;
    /// Writes a feedback report to a file.
    v166 stable FeedbackSave = "feedback/save" (FeedbackSaveParams) -> FeedbackSaveResponse;
    /// Runs a command outside any thread.
    both stable CommandExec = "command/exec" (CommandExecParams) -> CommandExecResponse;
    /// Writes to the standard input of a `command/exec` process.
    both stable CommandExecWrite = "command/exec/write" (CommandExecWriteParams) -> CommandExecWriteResponse;
    /// Terminates a `command/exec` process.
    both stable CommandExecTerminate = "command/exec/terminate" (CommandExecTerminateParams) -> CommandExecTerminateResponse;
    /// Resizes the terminal of a `command/exec` process.
    both stable CommandExecResize = "command/exec/resize" (CommandExecResizeParams) -> CommandExecResizeResponse;
    /// Starts a process.
    v166 experimental ProcessSpawn = "process/spawn" (ProcessSpawnParams) -> ProcessSpawnResponse;
    /// Writes to the standard input of a process.
    v166 experimental ProcessWriteStdin = "process/writeStdin" (ProcessWriteStdinParams) -> ProcessWriteStdinResponse;
    /// Kills a process.
    v166 experimental ProcessKill = "process/kill" (ProcessKillParams) -> ProcessKillResponse;
    /// Resizes the terminal of a process.
    v166 experimental ProcessResizePty = "process/resizePty" (ProcessResizePtyParams) -> ProcessResizePtyResponse;
    /// Returns the effective configuration and the origin of each value.
    both stable ConfigRead = "config/read" (ConfigReadParams) -> ConfigReadResponse;
    /// Detects settings of other agents that can be imported.
    both stable ExternalAgentConfigDetect = "externalAgentConfig/detect" (ExternalAgentConfigDetectParams) -> ExternalAgentConfigDetectResponse;
    /// Imports settings of other agents.
    both stable ExternalAgentConfigImport = "externalAgentConfig/import" (ExternalAgentConfigImportParams) -> ExternalAgentConfigImportResponse;
    /// Records an import that the client made.
    v166 stable ExternalAgentConfigImportRecordHistory = "externalAgentConfig/import/recordHistory" (ExternalAgentConfigImportHistoryRecordParams) -> ExternalAgentConfigImportHistoryRecordResponse;
    /// Lists the imports from other agents.
    v166 stable ExternalAgentConfigImportReadHistories = "externalAgentConfig/import/readHistories" (NoParams) -> ExternalAgentConfigImportHistoriesReadResponse;
    /// Writes one value of the user configuration.
    both stable ConfigValueWrite = "config/value/write" (ConfigValueWriteParams) -> ConfigWriteResponse;
    /// Writes several values of the user configuration, all or none.
    both stable ConfigBatchWrite = "config/batchWrite" (ConfigBatchWriteParams) -> ConfigWriteResponse;
    /// Returns the limits set by an administrator.
    both stable ConfigRequirementsRead = "configRequirements/read" (NoParams) -> ConfigRequirementsReadResponse;
    /// Returns the account that is signed in.
    both stable AccountRead = "account/read" (GetAccountParams) -> GetAccountResponse;
    /// Finds files by a fuzzy query.
    both stable FuzzyFileSearch = "fuzzyFileSearch" (FuzzyFileSearchParams) -> FuzzyFileSearchResponse;
    /// Starts a search session, whose query can be changed.
    both experimental FuzzyFileSearchSessionStart = "fuzzyFileSearch/sessionStart" (FuzzyFileSearchSessionStartParams) -> FuzzyFileSearchSessionStartResponse;
    /// Changes the query of a search session.
    both experimental FuzzyFileSearchSessionUpdate = "fuzzyFileSearch/sessionUpdate" (FuzzyFileSearchSessionUpdateParams) -> FuzzyFileSearchSessionUpdateResponse;
    /// Ends a search session.
    both experimental FuzzyFileSearchSessionStop = "fuzzyFileSearch/sessionStop" (FuzzyFileSearchSessionStopParams) -> FuzzyFileSearchSessionStopResponse;
}

/// Requests of generations before 0.118. A server refuses them like the requests of the table that it does not serve.
pub const OLDER_REQUESTS: &[&str] = &["getAuthStatus", "getConversationSummary", "gitDiffToRemote"];
