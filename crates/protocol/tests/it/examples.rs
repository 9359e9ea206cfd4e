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
            ThreadStart,
            ThreadResume,
            ThreadFork,
            ThreadArchive,
            ThreadUnsubscribe,
            ThreadIncrementElicitation,
            ThreadDecrementElicitation,
            ThreadNameSet,
            ThreadMetadataUpdate,
            ThreadUnarchive,
            ThreadCompactStart,
            ThreadShellCommand,
            ThreadBackgroundTerminalsClean,
            ThreadRollback,
            ThreadList,
            ThreadLoadedList,
            ThreadRead,
            SkillsList,
            PluginList,
            PluginRead,
            AppList,
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
            TurnSteer,
            TurnInterrupt,
            ThreadRealtimeStart,
            ThreadRealtimeAppendAudio,
            ThreadRealtimeAppendText,
            ThreadRealtimeStop,
            ReviewStart,
            ModelList,
            ExperimentalFeatureList,
            ExperimentalFeatureEnablementSet,
            CollaborationModeList,
            MockExperimentalMethod,
            McpServerOauthLogin,
            ConfigMcpServerReload,
            McpServerStatusList,
            WindowsSandboxSetupStart,
            AccountLoginStart,
            AccountLoginCancel,
            AccountLogout,
            AccountRateLimitsRead,
            FeedbackUpload,
            CommandExec,
            CommandExecWrite,
            CommandExecTerminate,
            CommandExecResize,
            ConfigRead,
            ExternalAgentConfigDetect,
            ExternalAgentConfigImport,
            ConfigValueWrite,
            ConfigBatchWrite,
            ConfigRequirementsRead,
            AccountRead,
            FuzzyFileSearch,
            FuzzyFileSearchSessionStart,
            FuzzyFileSearchSessionUpdate,
            FuzzyFileSearchSessionStop,
            PermissionProfileList,
            ThreadTurnsList,
            ThreadItemsList,
            ThreadSettingsUpdate,
            ThreadRevert,
            ThreadInjectItems,
            ThreadDelete,
            ThreadGoalSet,
            ThreadGoalGet,
            ThreadGoalClear,
            ThreadBackgroundTerminalsList,
            ThreadBackgroundTerminalsTerminate,
            HooksList,
            BedrockCheckGovCloudRequirements
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
    for method in CLIENT_REQUESTS.iter().chain(LATER_REQUESTS) {
        if let Err(reason) = read_by_name(method.name, None) {
            assert_eq!(reason, "missing field `params`", "{}", method.name);
        }
        let _ = read_by_name(method.name, Some(&RawValue::from_string("{}".into()).unwrap()));
    }
}
