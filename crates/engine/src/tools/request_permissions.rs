//! `request_permissions`: the model asks for permissions that its next commands need.

use std::path::PathBuf;

use codicil_model::ToolSpec;
use codicil_policy::{AccessGrant, CommandRules, DecisionPolicies, PermissionsDecision, decide_permissions};
use codicil_protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions, FileSystemAccessMode,
    FileSystemPath, FileSystemSandboxEntry, LegacyAppPathString, PermissionGrantScope, PermissionsApproval,
    PermissionsRequestApprovalParams, RequestPermissionProfile,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{
    LOCAL_ENVIRONMENT, TurnTools,
    ask::{AskingCall, QuestionKind, QuestionReply},
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolOutput, ToolResult, text_output},
    command::{AdditionalPermissions, additional_permissions_schema},
    guardian,
    offer::ToolOffer,
    schema::{function, string},
};
use crate::clock::unix_now_ms;

const NAME: &str = "request_permissions";

pub(super) struct RequestPermissions;

#[derive(Deserialize)]
struct PermissionArguments {
    permissions: AdditionalPermissions,
    reason: Option<String>,
}

impl BuiltinTool for RequestPermissions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let properties = json!({
            "permissions": additional_permissions_schema(),
            "reason": string("One sentence for the user that says what they are for."),
        });
        let description = "Asks the user for permissions that commands to come will need: the network, or files \
                           outside the sandbox. Returns what was granted.";
        (offer.is_main() && offer.request_permissions)
            .then(|| function(NAME, description, properties, &["permissions"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: PermissionArguments = call.arguments()?;
    let requested = arguments.permissions.resolve(turn).await;
    if requested == AccessGrant::default() {
        return Err(ToolError::Failed(format!("{NAME} requires at least one permission")));
    }
    match decide(turn, &requested) {
        PermissionsDecision::Granted => return Ok(granted_output(&requested, PermissionGrantScope::Turn)),
        PermissionsDecision::Refuse { why } => {
            return Err(ToolError::Failed(format!("permissions refused: {why}")));
        }
        PermissionsDecision::Ask => {}
    }
    let WirePermissions { network, file_system } = WirePermissions::from(&requested);
    if guardian::is_enabled(turn) {
        let action = json!({
            "tool": NAME,
            "permissions": { "network": network, "file_system": file_system },
            "reason": arguments.reason,
        });
        if let Err(why) = guardian::review(turn, &call.item_id(), action).await? {
            return Err(ToolError::Failed(format!("permissions {why}")));
        }
        turn.thread.grants().accept_access(&requested, PermissionGrantScope::Turn);
        return Ok(granted_output(&requested, PermissionGrantScope::Turn));
    }
    let params = PermissionsRequestApprovalParams {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: call.item_id(),
        environment_id: Some(LOCAL_ENVIRONMENT.to_owned()),
        cwd: turn.settings.cwd.to_string_lossy().into_owned(),
        started_at_ms: unix_now_ms(),
        reason: arguments.reason,
        permissions: RequestPermissionProfile { network, file_system },
    };
    let asker = AskingCall { call_id: &call.id, item: None };
    let reply = turn.ask_durably::<PermissionsApproval>(params, QuestionKind::Approval, asker).await?;
    let (granted, scope) = match reply {
        // A client cannot grant more than was requested.
        QuestionReply::Answer(response) => {
            (AccessGrant::from(&response.permissions).limited_to(&requested), response.scope)
        }
        QuestionReply::Unreadable | QuestionReply::Error => {
            (AccessGrant::default(), PermissionGrantScope::Turn)
        }
    };
    turn.thread.grants().accept_access(&granted, scope);
    Ok(granted_output(&granted, scope))
}

fn decide(turn: &TurnTools, requested: &AccessGrant) -> PermissionsDecision {
    let grants = turn.thread.grants().clone();
    let policies = DecisionPolicies {
        approval: &turn.settings.approval_policy,
        sandbox: &turn.settings.sandbox,
        // Rules are about commands and do not apply here.
        rules: &CommandRules::default(),
        grants: &grants,
    };
    decide_permissions(requested, &policies)
}

/// Permissions in the protocol's types.
pub(super) struct WirePermissions {
    pub network: Option<AdditionalNetworkPermissions>,
    pub file_system: Option<AdditionalFileSystemPermissions>,
}

impl From<&AccessGrant> for WirePermissions {
    fn from(access: &AccessGrant) -> Self {
        let paths = |paths: &[PathBuf]| {
            let paths: Vec<_> = paths.iter().filter_map(AbsolutePathBuf::new).collect();
            (!paths.is_empty()).then_some(paths)
        };
        let read = paths(&access.read);
        let write = paths(&access.write);
        let rules = |paths: &Option<Vec<AbsolutePathBuf>>, access: FileSystemAccessMode| {
            let rule = move |path: &AbsolutePathBuf| FileSystemSandboxEntry {
                path: FileSystemPath::Path { path: LegacyAppPathString(path.display().to_string()) },
                access: access.clone(),
            };
            paths.iter().flatten().map(rule).collect::<Vec<_>>()
        };
        let mut entries = rules(&read, FileSystemAccessMode::Read);
        entries.extend(rules(&write, FileSystemAccessMode::Write));
        let file_system = (!entries.is_empty()).then_some(AdditionalFileSystemPermissions {
            read,
            write,
            entries: Some(entries),
            glob_scan_max_depth: None,
        });
        let network = access.network.then_some(AdditionalNetworkPermissions { enabled: Some(true) });
        Self { network, file_system }
    }
}

fn granted_output(access: &AccessGrant, scope: PermissionGrantScope) -> ToolOutput {
    let WirePermissions { network, file_system } = WirePermissions::from(access);
    let file_system = file_system.map(|files| AdditionalFileSystemPermissions { entries: None, ..files });
    let permissions = json!({ "network": network, "file_system": file_system });
    text_output(json!({ "permissions": permissions, "scope": scope }).to_string())
}
