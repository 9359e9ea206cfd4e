//! `request_permissions`: the model asks for what its commands will need.

use std::path::PathBuf;

use codicil_policy::{AccessGrant, CommandRules, DecisionPolicies, PermissionsDecision, decide_permissions};
use codicil_protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions, PermissionGrantScope,
    PermissionsApproval, PermissionsRequestApprovalParams, RequestPermissionProfile,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::{ToolCall, ToolOutput, TurnCancelled, say},
    command::AdditionalPermissions,
};

#[derive(Deserialize)]
struct PermissionArguments {
    permissions: AdditionalPermissions,
    reason: Option<String>,
}

impl TurnTools {
    pub(super) async fn request_permissions(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: PermissionArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let wanted = arguments.permissions.access(self).await;
        if wanted == AccessGrant::default() {
            return Ok(say("request_permissions requires at least one permission"));
        }
        match self.decide_permissions(&wanted) {
            PermissionsDecision::Granted => return Ok(granted(&wanted, PermissionGrantScope::Turn)),
            PermissionsDecision::Refuse { why } => return Ok(say(format!("permissions refused: {why}"))),
            PermissionsDecision::Ask => {}
        }
        let params = PermissionsRequestApprovalParams {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: call.item_id(),
            reason: arguments.reason,
            permissions: {
                let (network, file_system) = in_words(&wanted);
                RequestPermissionProfile { network, file_system }
            },
        };
        let (access, scope) = match self.ask::<PermissionsApproval>(params, QuestionKind::Approval).await? {
            // Nobody gives more than was asked for.
            QuestionReply::Answer(response) => {
                (AccessGrant::from(&response.permissions).cut_to(&wanted), response.scope)
            }
            QuestionReply::Nonsense | QuestionReply::Error => {
                (AccessGrant::default(), PermissionGrantScope::Turn)
            }
        };
        self.kit.grants().accept_access(&access, scope);
        Ok(granted(&access, scope))
    }

    fn decide_permissions(&self, wanted: &AccessGrant) -> PermissionsDecision {
        let grants = self.kit.grants().clone();
        let (approval, sandbox) = (&self.settings.approval_policy, &self.settings.sandbox);
        // Rules are about commands; they have nothing to say here.
        let policies =
            DecisionPolicies { approval, sandbox, rules: &CommandRules::default(), grants: &grants };
        decide_permissions(wanted, &policies)
    }
}

/// What is wanted, in the words of the protocol: of the network, and of files.
pub(super) fn in_words(
    access: &AccessGrant,
) -> (Option<AdditionalNetworkPermissions>, Option<AdditionalFileSystemPermissions>) {
    let paths = |paths: &[PathBuf]| {
        let paths: Vec<_> = paths.iter().filter_map(AbsolutePathBuf::new).collect();
        (!paths.is_empty()).then_some(paths)
    };
    let (read, write) = (paths(&access.read), paths(&access.write));
    let has_files = read.is_some() || write.is_some();
    (
        access.network.then_some(AdditionalNetworkPermissions { enabled: Some(true) }),
        has_files.then_some(AdditionalFileSystemPermissions { read, write }),
    )
}

fn granted(access: &AccessGrant, scope: PermissionGrantScope) -> ToolOutput {
    let (network, file_system) = in_words(access);
    let permissions = json!({ "network": network, "file_system": file_system });
    say(json!({ "permissions": permissions, "scope": scope }).to_string())
}
