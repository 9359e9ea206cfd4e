//! Unknown values and fields of newer peers: kept by clients, rejected by servers.

use std::fmt::Debug;

use codicil_protocol::*;
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::to_raw_value};

/// Checks that an unknown value is written unchanged and found by an inspection.
fn survives<T>(value: &Value, name: &str)
where
    T: Serialize + DeserializeOwned + Inspect + Debug,
{
    let what = std::any::type_name::<T>();
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(&serde_json::to_value(&read).unwrap(), value, "{what}");
    let findings = InspectFindings::of(&read);
    let reason = findings.unknown_value().unwrap_or_else(|| panic!("{what} takes {value}"));
    let begin = format!("unknown variant `{name}`, expected ");
    assert!(reason.starts_with(&begin), "{what}: {reason}");
    assert!(!reason.contains("nrecognized"), "{what}: {reason}");
}

macro_rules! each {
    ($value:expr, $name:expr, [$($type:ty),* $(,)?]) => { $(survives::<$type>($value, $name);)* };
}

#[test]
fn unknown_strings_are_kept() {
    each!(
        &json!("brand_newWord-9"),
        "brand_newWord-9",
        [
            ApprovalsReviewer,
            AskForApproval,
            AuthMode,
            CancelLoginAccountStatus,
            ChatgptAuthTokensRefreshReason,
            CodexErrorInfo,
            CollabAgentStatus,
            CollabAgentTool,
            CollabAgentToolCallStatus,
            CommandExecOutputStream,
            CommandExecutionApprovalDecision,
            CommandExecutionSource,
            CommandExecutionStatus,
            DynamicToolCallStatus,
            ExperimentalFeatureStage,
            ExternalAgentConfigMigrationItemType,
            FileChangeApprovalDecision,
            ForcedLoginMethod,
            FuzzyFileSearchMatchType,
            GuardianApprovalReviewStatus,
            GuardianRiskLevel,
            HookEventName,
            HookExecutionMode,
            HookHandlerType,
            HookOutputEntryKind,
            HookRunStatus,
            HookScope,
            ImageDetail,
            InputModality,
            LocalShellStatus,
            McpAuthStatus,
            McpElicitationStringFormat,
            McpServerStartupState,
            McpToolCallStatus,
            MessagePhase,
            ModeKind,
            ModelRerouteReason,
            NetworkAccess,
            NetworkApprovalProtocol,
            NetworkDomainPermission,
            NetworkPolicyRuleAction,
            NetworkUnixSocketPermission,
            NonSteerableTurnKind,
            PatchApplyStatus,
            PlanType,
            PluginAuthPolicy,
            PluginInstallPolicy,
            RealtimeConversationVersion,
            ReasoningSummary,
            ResidencyRequirement,
            SandboxMode,
            SessionSource,
            SkillScope,
            SubAgentSource,
            ThreadActiveFlag,
            ThreadSortKey,
            ThreadUnsubscribeStatus,
            TurnPlanStepStatus,
            TurnStatus,
            Verbosity,
            WebSearchContextSize,
            WebSearchMode,
            WindowsSandboxSetupMode,
            WriteStatus,
        ]
    );
}

/// Models of later generations have efforts and tiers that the published protocol does not name.
#[test]
fn any_effort_and_tier_is_accepted() {
    let value = json!("brand_newWord-9");
    let effort: ReasoningEffort = serde_json::from_value(value.clone()).unwrap();
    let tier: ServiceTier = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&effort).unwrap(), value);
    assert_eq!(serde_json::to_value(&tier).unwrap(), value);
    assert_eq!(InspectFindings::of(&effort).unknown_value(), None);
    assert_eq!(InspectFindings::of(&tier).unknown_value(), None);
    assert!(serde_json::from_value::<ReasoningEffort>(json!(3)).is_err());
}

#[test]
fn unknown_types_are_kept() {
    let value = json!({ "type": "brandNew", "id": "i", "nested": { "type": 5, "list": [null, 1.5] } });
    each!(
        &value,
        "brandNew",
        [
            Account,
            CommandAction,
            ConfigLayerSource,
            ContentItem,
            DynamicToolCallOutputContentItem,
            FileChange,
            FunctionCallOutputContentItem,
            LocalShellAction,
            LoginAccountResponse,
            ParsedCommand,
            PatchChangeKind,
            PluginSource,
            ReadOnlyAccess,
            ReasoningItemContent,
            ReasoningItemReasoningSummary,
            ResponsesApiWebSearchAction,
            SandboxPolicy,
            ThreadItem,
            ThreadStatus,
            UserInput,
            WebSearchAction,
        ]
    );
}

/// A history can come from a client that knows more kinds of items than this server.
#[test]
fn unknown_history_items_are_accepted_but_not_unknown_parts() {
    let item = json!({ "type": "brand_new", "id": "i", "list": [null, 1.5] });
    let read: ResponseItem = serde_json::from_value(item.clone()).unwrap();
    assert_eq!(InspectFindings::of(&read).unknown_value(), None);
    assert_eq!(serde_json::to_value(&read).unwrap(), item);
    let part = json!({ "type": "message", "role": "user", "content": [{ "type": "brand_new" }] });
    let read: ResponseItem = serde_json::from_value(part).unwrap();
    assert!(InspectFindings::of(&read).unknown_value().is_some());
}

#[test]
fn unknown_variants_with_content_are_kept() {
    let value = json!({ "brandNew": { "deep": [{ "a": null }] } });
    each!(
        &value,
        "brandNew",
        [AskForApproval, CodexErrorInfo, CommandExecutionApprovalDecision, SessionSource, SubAgentSource,]
    );
}

#[test]
fn a_known_type_with_a_wrong_member_is_an_error() {
    let error = |value: Value| serde_json::from_value::<ThreadItem>(value).unwrap_err().to_string();
    assert_eq!(error(json!({ "type": "agentMessage", "id": "i" })), "missing field `text`");
    let wrong = json!({ "type": "plan", "id": "i", "text": 5 });
    assert_eq!(error(wrong), "invalid type: integer `5`, expected a string");
    assert!(error(json!({ "id": "i" })).contains("missing field `type`"));
    assert!(serde_json::from_value::<TurnStatus>(json!(5)).is_err());
}

#[test]
fn the_error_lists_the_known_values() {
    let reason = |value: &str| {
        let status: TurnStatus = serde_json::from_value(json!(value)).unwrap();
        InspectFindings::of(&status).unknown_value().map(str::to_owned)
    };
    assert_eq!(reason("completed"), None);
    assert_eq!(
        reason("paused").unwrap(),
        "unknown variant `paused`, expected one of `completed`, `interrupted`, `failed`, `inProgress`"
    );
    assert_eq!(unknown_variant("x", &["a"]), "unknown variant `x`, expected `a`");
    assert_eq!(unknown_variant("x", &["a", "b"]), "unknown variant `x`, expected `a` or `b`");
    assert_eq!(unknown_variant("x", &[]), "unknown variant `x`, there are no variants");
}

#[test]
fn unknown_values_are_found_at_any_depth() {
    let params = json!({ "threadId": "t", "input": [{ "type": "text", "text": "x" }],
        "sandboxPolicy": { "type": "readOnly", "access": { "type": "someday" } } });
    let params: TurnStartParams = serde_json::from_value(params).unwrap();
    let findings = InspectFindings::of(&params);
    assert_eq!(
        findings.unknown_value(),
        Some("unknown variant `someday`, expected `restricted` or `fullAccess`")
    );
    assert_eq!(findings.experimental_use(), None);
}

#[test]
fn an_unknown_message_is_kept() {
    let params = json!({ "a": [1, { "b": null }] });
    let raw = to_raw_value(&params).unwrap();
    let ServerNotification::Unknown(kept) = ServerNotification::decode("later/notice", Some(&raw)) else {
        panic!("it is not known")
    };
    assert_eq!((kept.method.as_str(), kept.params), ("later/notice", Some(params.clone())));
    let ServerRequest::Unknown(kept) = ServerRequest::decode("later/request", Some(&raw)) else {
        panic!("it is not known")
    };
    assert_eq!((kept.method.as_str(), kept.params), ("later/request", Some(params.clone())));
    // A known message that cannot be decoded is kept too.
    let ServerNotification::Unknown(kept) = ServerNotification::decode("turn/completed", Some(&raw)) else {
        panic!("it has other params")
    };
    assert_eq!(kept.params, Some(params));
}

/// Adds an unknown member to every object, except to maps and externally tagged variants.
fn with_unknown_members(value: &Value) -> Value {
    match value {
        Value::Object(members) if members.len() > 1 => {
            let mut members: serde_json::Map<_, _> =
                members.iter().map(|(name, value)| (name.clone(), with_unknown_members(value))).collect();
            members.insert("unknownToThisVersion".into(), json!({ "x": [1] }));
            members.into()
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), with_unknown_members(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(with_unknown_members).collect(),
        other => other.clone(),
    }
}

#[test]
fn unknown_fields_change_nothing() {
    let thread = crate::wire::thread();
    let read: Thread = serde_json::from_value(with_unknown_members(&thread)).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), thread);
}

proptest! {
    #[test]
    fn any_word_is_kept(word in any::<String>()) {
        let value = json!(word);
        let status: TurnStatus = serde_json::from_value(value.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&status).unwrap(), value.clone());
        let source: SessionSource = serde_json::from_value(value.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&source).unwrap(), value);
    }

    #[test]
    fn any_kind_is_kept(kind in "[a-z][A-Za-z]{0,12}X", member in any::<String>(), number in any::<i64>()) {
        let value = json!({ "type": kind, "text": member, "number": number });
        let item: ThreadItem = serde_json::from_value(value.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&item).unwrap(), value);
    }
}
