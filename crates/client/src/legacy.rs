//! Approvals of the older dialect, in the words of the newer one and back.

use codicil_protocol::{
    ApplyPatchApprovalParams, ApplyPatchApprovalResponse, CommandExecutionApprovalDecision,
    CommandExecutionRequestApprovalParams, ExecCommandApprovalParams, ExecCommandApprovalResponse,
    FileChangeApprovalDecision, FileChangeRequestApprovalParams, ReviewDecision,
};

/// The older dialect does not name the turn.
const NO_TURN: &str = "";

pub fn command(asked: ExecCommandApprovalParams) -> CommandExecutionRequestApprovalParams {
    let words = asked.command.iter().map(String::as_str);
    // Only a NUL cannot be quoted, and no command has one.
    let command = shlex::try_join(words).unwrap_or_else(|_| asked.command.join(" "));
    CommandExecutionRequestApprovalParams {
        thread_id: asked.conversation_id,
        turn_id: NO_TURN.into(),
        item_id: asked.call_id.into(),
        started_at_ms: None,
        approval_id: asked.approval_id,
        reason: asked.reason,
        network_approval_context: None,
        command: Some(command),
        cwd: Some(asked.cwd),
        command_actions: None,
        additional_permissions: None,
        proposed_execpolicy_amendment: None,
        proposed_network_policy_amendments: None,
        available_decisions: None,
    }
}

pub fn command_answer(decision: CommandExecutionApprovalDecision) -> ExecCommandApprovalResponse {
    use CommandExecutionApprovalDecision as D;
    let decision = match decision {
        D::Accept => ReviewDecision::Approved,
        D::AcceptForSession => ReviewDecision::ApprovedForSession,
        D::AcceptWithExecpolicyAmendment { execpolicy_amendment } => {
            ReviewDecision::ApprovedExecpolicyAmendment {
                proposed_execpolicy_amendment: execpolicy_amendment,
            }
        }
        D::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
            ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }
        }
        D::Cancel => ReviewDecision::Abort,
        D::Decline | D::Unrecognized(_) => ReviewDecision::Denied,
    };
    ExecCommandApprovalResponse { decision }
}

/// The edits themselves have no place in the newer question; there the item carries them.
pub fn file_change(asked: ApplyPatchApprovalParams) -> FileChangeRequestApprovalParams {
    FileChangeRequestApprovalParams {
        thread_id: asked.conversation_id,
        turn_id: NO_TURN.into(),
        item_id: asked.call_id.into(),
        started_at_ms: None,
        reason: asked.reason,
        grant_root: asked.grant_root,
    }
}

pub fn file_change_answer(decision: FileChangeApprovalDecision) -> ApplyPatchApprovalResponse {
    use FileChangeApprovalDecision as D;
    let decision = match decision {
        D::Accept => ReviewDecision::Approved,
        D::AcceptForSession => ReviewDecision::ApprovedForSession,
        D::Cancel => ReviewDecision::Abort,
        D::Decline | D::Unrecognized(_) => ReviewDecision::Denied,
    };
    ApplyPatchApprovalResponse { decision }
}
