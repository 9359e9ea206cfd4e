//! Example requests from the documentation of the protocol can be decoded.

use codicil_protocol::{rpc::Message, *};
use serde_json::{Value, value::RawValue};

/// One message per line.
const REQUESTS: &str = include_str!("../fixtures/requests.jsonl");

/// Reads params as the method's own type and writes them again.
fn read<M: Method>(params: Option<&RawValue>) -> Result<Value, String> {
    let params: M::Params = decode_params(params)?;
    if let Some(reason) = InspectFindings::of(&params).unknown_value() {
        return Err(reason.to_owned());
    }
    Ok(serde_json::to_value(&params).unwrap())
}

macro_rules! by_name {
    ($method:expr, $params:expr, [$($name:ident),* $(,)?]) => {
        match $method {
            $($name::NAME => read::<$name>($params),)*
            other => Err(format!("there is no method {other}")),
        }
    };
}

#[allow(clippy::too_many_lines, reason = "one line for each method")]
fn read_by_name(method: &str, params: Option<&RawValue>) -> Result<Value, String> {
    by_name!(
        method,
        params,
        [
            Initialize,
            ServerDiagnostics,
            UserVerificationStatus,
            UserVerificationEnroll,
            UserVerificationDelete,
            UserVerificationVerify,
            UserVerificationCancel,
            ThreadStart,
            ThreadResume,
            ThreadFork,
            ThreadSample,
            ThreadSampleCancel,
            ThreadArchive,
            ThreadDelete,
            ThreadUnsubscribe,
            ThreadIncrementElicitation,
            ThreadDecrementElicitation,
            ThreadNameSet,
            ThreadPredictionRequest,
            ThreadGoalSet,
            ThreadGoalGet,
            ThreadGoalClear,
            ThreadQueueAdd,
            ThreadQueueList,
            ThreadQueueUpdate,
            ThreadQueueDelete,
            ThreadQueueReorder,
            ThreadQueueStart,
            ThreadMetadataUpdate,
            ThreadAttachmentAdd,
            ThreadAttachmentList,
            ThreadAttachmentOwnerList,
            ThreadAttachmentRemove,
            ThreadSectionMove,
            ThreadSettingsUpdate,
            ThreadMemoryModeSet,
            ThreadMemoryRead,
            MemoryStatus,
            MemoryReset,
            RolloutCompress,
            ThreadUnarchive,
            ThreadCompactStart,
            ThreadShellCommand,
            ThreadApproveGuardianDeniedAction,
            ThreadBackgroundTerminalsClean,
            ThreadBackgroundTerminalsList,
            ThreadBackgroundTerminalsTerminate,
            ThreadRevert,
            ThreadRollback,
            ThreadList,
            ProjectList,
            ProjectRead,
            ProjectCreate,
            ProjectImport,
            ProjectUpdate,
            ProjectMove,
            ProjectDelete,
            ThreadSectionList,
            ThreadSectionCreate,
            ThreadSectionUpdate,
            ThreadSectionDelete,
            ThreadSearch,
            ThreadSearchOccurrences,
            ThreadLoadedList,
            ThreadRead,
            ThreadReadStateUpdate,
            ThreadTurnsList,
            ThreadItemsList,
            ThreadItemsRead,
            ThreadInjectItems,
            SkillsList,
            SkillsExtraRootsSet,
            HooksList,
            MarketplaceAdd,
            MarketplaceRemove,
            MarketplaceUpgrade,
            PluginList,
            PluginSearch,
            PluginInstalled,
            PluginReconcile,
            PluginRead,
            PluginSkillRead,
            PluginShareSave,
            PluginShareUpdateTargets,
            PluginShareList,
            PluginShareCheckout,
            PluginShareDelete,
            AppRead,
            AppList,
            AppInstalled,
            FsReadFile,
            FsWriteFile,
            FsCreateDirectory,
            FsGetMetadata,
            FsReadDirectory,
            FsRemove,
            FsCopy,
            FsWatch,
            FsUnwatch,
            SkillsConfigWrite,
            PluginInstall,
            PluginUninstall,
            TurnStart,
            TurnSettingsUpdate,
            TurnSteer,
            TurnInterrupt,
            ThreadRealtimeStart,
            ThreadRealtimeAppendAudio,
            ThreadRealtimeAppendText,
            ThreadRealtimeAppendSpeech,
            ThreadRealtimeStop,
            ThreadTimelineList,
            ThreadRealtimeListVoices,
            ReviewStart,
            ModelList,
            GatewayOAuthRead,
            GatewayOAuthLogin,
            GatewayOAuthCancel,
            ModelProviderCapabilitiesRead,
            ExperimentalFeatureList,
            PermissionProfileList,
            ExperimentalFeatureEnablementSet,
            RemoteControlEnable,
            RemoteControlDisable,
            RemoteControlStatusRead,
            RemoteControlPairingStart,
            RemoteControlPairingStatus,
            RemoteControlClientList,
            RemoteControlClientRevoke,
            CollaborationModeList,
            MockExperimentalMethod,
            EnvironmentAdd,
            EnvironmentInfo,
            EnvironmentStatus,
            McpServerOauthLogin,
            ConfigMcpServerReload,
            McpServerStatusList,
            McpServerResourceRead,
            McpServerEventStreamStart,
            McpServerEventStreamStop,
            McpServerToolCall,
            WindowsSandboxSetupStart,
            WindowsSandboxReadinessRead,
            AccountLoginStart,
            BedrockDiscover,
            BedrockSetup,
            GcpSetup,
            BedrockCheckGovCloudRequirements,
            AccountLoginCancel,
            AccountSessionList,
            AccountSessionSwitch,
            AccountLogout,
            AccountRateLimitsRead,
            AccountRateLimitResetCreditConsume,
            AccountUsageRead,
            AccountWorkspaceMessagesRead,
            AccountSendAddCreditsNudgeEmail,
            FeedbackUpload,
            FeedbackSave,
            CommandExec,
            CommandExecWrite,
            CommandExecTerminate,
            CommandExecResize,
            ProcessSpawn,
            ProcessWriteStdin,
            ProcessKill,
            ProcessResizePty,
            ConfigRead,
            ExternalAgentConfigDetect,
            ExternalAgentConfigImport,
            ExternalAgentConfigImportRecordHistory,
            ExternalAgentConfigImportReadHistories,
            ConfigValueWrite,
            ConfigBatchWrite,
            ConfigRequirementsRead,
            AccountRead,
            FuzzyFileSearch,
            FuzzyFileSearchSessionStart,
            FuzzyFileSearchSessionUpdate,
            FuzzyFileSearchSessionStop
        ]
    )
}

#[test]
fn every_example_is_decoded() {
    let mut count = 0;
    for line in REQUESTS.lines() {
        let Message::Request { method, params, .. } = Message::parse(line).unwrap() else {
            panic!("a request is expected: {line}")
        };
        let written = read_by_name(&method, params).unwrap_or_else(|reason| panic!("{reason}: {line}"));
        let text = serde_json::value::to_raw_value(&written).unwrap();
        assert_eq!(read_by_name(&method, Some(&text)), Ok(written), "the same when it is read again");
        count += 1;
    }
    assert_eq!(count, 59);
}

#[test]
fn every_method_of_the_table_is_decoded() {
    for method in CLIENT_REQUESTS {
        if let Err(reason) = read_by_name(method.name, None) {
            assert_eq!(reason, "missing field `params`", "{}", method.name);
        }
        let _ = read_by_name(method.name, Some(&RawValue::from_string("{}".into()).unwrap()));
    }
}
