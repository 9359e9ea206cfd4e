//! Translates approvals between the older protocol (`execCommandApproval`, `applyPatchApproval`) and the current one.

use codicil_protocol::{
    ApplyPatchApprovalParams, ApplyPatchApprovalResponse, CommandExecutionApprovalDecision,
    CommandExecutionApprovalKind, CommandExecutionRequestApprovalParams, ExecCommandApprovalParams,
    ExecCommandApprovalResponse, FileChange, FileChangeApprovalDecision, FileChangeRequestApprovalParams,
    FileUpdateChange, PatchChangeKind, ReviewDecision,
};

use crate::approvals::FileChangeApproval;

/// The older protocol does not name the turn.
const NO_TURN: &str = "";

pub fn command(params: ExecCommandApprovalParams) -> CommandExecutionRequestApprovalParams {
    let words = params.command.iter().map(String::as_str);
    // Quoting fails only for a NUL byte, which no command contains.
    let command = shlex::try_join(words).unwrap_or_else(|_| params.command.join(" "));
    CommandExecutionRequestApprovalParams {
        kind: CommandExecutionApprovalKind::Command,
        thread_id: params.conversation_id,
        turn_id: NO_TURN.into(),
        item_id: params.call_id.into(),
        started_at_ms: None,
        approval_id: params.approval_id,
        environment_id: None,
        reason: params.reason,
        network_approval_context: None,
        command: Some(command),
        cwd: Some(params.cwd),
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

/// The older request carries the edits itself.
pub fn file_change(params: ApplyPatchApprovalParams) -> FileChangeApproval {
    let changes = params.file_changes.into_iter().map(|(path, change)| {
        let (kind, diff) = match change {
            FileChange::Add { content } => (PatchChangeKind::Add, content),
            FileChange::Delete { content } => (PatchChangeKind::Delete, content),
            FileChange::Update { unified_diff, move_path } => {
                (PatchChangeKind::Update { move_path }, unified_diff)
            }
            FileChange::Unrecognized(change) => (PatchChangeKind::Unrecognized(change), String::new()),
        };
        FileUpdateChange { path, kind, diff }
    });
    FileChangeApproval {
        changes: changes.collect(),
        params: FileChangeRequestApprovalParams {
            thread_id: params.conversation_id,
            turn_id: NO_TURN.into(),
            item_id: params.call_id.into(),
            started_at_ms: None,
            reason: params.reason,
            grant_root: params.grant_root,
        },
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
