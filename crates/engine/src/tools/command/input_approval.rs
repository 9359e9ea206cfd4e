//! Approvals of input to commands that run outside the sandbox. Clients of the 0.118 generation do not expect them.

use codicil_exec::SessionId;
use codicil_policy::CommandLine;
use codicil_protocol::{
    AskForApproval, CommandAction, CommandExecutionApproval, CommandExecutionApprovalDecision,
    CommandExecutionApprovalKind, CommandExecutionRequestApprovalParams, ProtocolGeneration,
};
use serde_json::json;

use super::write_stdin::WriteStdin;
use crate::{
    clock::unix_now_ms,
    tools::{
        LOCAL_ENVIRONMENT, TurnTools,
        ask::{QuestionKind, QuestionReply},
        builtin::BuiltinTool,
        call::{ToolCall, ToolError},
        guardian,
        thread_tools::BackgroundTerminal,
    },
};

const REASON: &str = "The command runs outside the sandbox, so its input needs approval.";

/// Input that the model wants to write to a session.
pub(super) struct SessionInput<'a> {
    pub session: SessionId,
    pub terminal: &'a BackgroundTerminal,
    pub chars: &'a str,
}

/// Returns once the input may be written. If the user cancels, the turn is interrupted.
pub(super) async fn approve(
    turn: &TurnTools,
    call: &ToolCall,
    input: &SessionInput<'_>,
) -> Result<(), ToolError> {
    if !needs_approval(turn, input) {
        return Ok(());
    }
    let rejected = |why: &str| ToolError::Failed(format!("{} failed: {why}", WriteStdin.name()));
    if guardian::is_enabled(turn) {
        let action = json!({
            "tool": call.name,
            "call_id": call.item_id(),
            "session": input.session.to_string(),
            "chars": input.chars,
            "cwd": input.terminal.cwd,
        });
        return guardian::review(turn, &input.terminal.item, action).await?.map_err(|why| rejected(&why));
    }
    let params = approval_params(turn, call, input);
    let decision = match turn.ask::<CommandExecutionApproval>(params, QuestionKind::Approval).await? {
        QuestionReply::Answer(response) => response.decision,
        QuestionReply::Unreadable => CommandExecutionApprovalDecision::Decline,
        QuestionReply::Error => return Err(rejected("the client could not be asked for approval")),
    };
    match decision {
        CommandExecutionApprovalDecision::Accept
        | CommandExecutionApprovalDecision::AcceptForSession
        | CommandExecutionApprovalDecision::AcceptWithExecpolicyAmendment { .. } => Ok(()),
        CommandExecutionApprovalDecision::Cancel => Err(turn.interrupt().into()),
        CommandExecutionApprovalDecision::Decline
        | CommandExecutionApprovalDecision::ApplyNetworkPolicyAmendment { .. }
        | CommandExecutionApprovalDecision::Unrecognized(_) => Err(rejected("rejected by user")),
    }
}

fn needs_approval(turn: &TurnTools, input: &SessionInput<'_>) -> bool {
    let may_ask = match &turn.settings.approval_policy {
        AskForApproval::Never => false,
        AskForApproval::Granular { sandbox_approval, .. } => *sandbox_approval,
        _ => true,
    };
    may_ask
        && turn.origin.generation == ProtocolGeneration::V166
        && input.terminal.is_escalated
        && !input.chars.is_empty()
}

fn approval_params(
    turn: &TurnTools,
    call: &ToolCall,
    input: &SessionInput<'_>,
) -> CommandExecutionRequestApprovalParams {
    let session = input.session.to_string();
    let words = [WriteStdin.name(), "--session-id", &session, input.chars].map(str::to_owned);
    let command = CommandLine::new(words.to_vec()).display();
    CommandExecutionRequestApprovalParams {
        kind: CommandExecutionApprovalKind::WriteStdin,
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: input.terminal.item.clone(),
        started_at_ms: Some(unix_now_ms()),
        approval_id: Some(call.id.clone()),
        environment_id: Some(LOCAL_ENVIRONMENT.to_owned()),
        reason: Some(REASON.to_owned()),
        network_approval_context: None,
        command: Some(command.clone()),
        cwd: Some(input.terminal.cwd.clone()),
        command_actions: Some(vec![CommandAction::Unknown { command }]),
        additional_permissions: None,
        proposed_execpolicy_amendment: None,
        proposed_network_policy_amendments: None,
        available_decisions: Some(vec![
            CommandExecutionApprovalDecision::Accept,
            CommandExecutionApprovalDecision::Cancel,
        ]),
    }
}
