//! Ready-made answers: decline, approve, end the turn, or ask a closure.

use codicil_protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
    FileChangeRequestApprovalParams, GrantedPermissionProfile, McpServerElicitationAction,
    McpServerElicitationRequest, McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
    PermissionGrantScope, PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
    ToolRequestUserInputAnswer, ToolRequestUserInputOption, ToolRequestUserInputParams,
    ToolRequestUserInputResponse,
};
use serde_json::json;

use crate::handler::{HandlerAnswer, NoAnswer, RequestHandler};

/// What the agent reads where a person would have answered.
pub const NON_INTERACTIVE: &str = "This is a non-interactive session. Operator input is unavailable.";

/// Declines everything. This is what a client does that was not told otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeclineAll;

impl RequestHandler for DeclineAll {}

/// Approves every command, edit and permission, and answers the agent's questions without a person.
///
/// Only for servers that are confined in another way: nothing is looked at.
#[derive(Clone, Copy, Debug)]
pub struct ApproveAll {
    scope: PermissionGrantScope,
}

impl ApproveAll {
    /// Each time anew.
    pub fn once() -> Self {
        Self { scope: PermissionGrantScope::Turn }
    }

    /// For the rest of the thread: `acceptForSession`, in the older dialect `approved_for_session`.
    pub fn for_session() -> Self {
        Self { scope: PermissionGrantScope::Session }
    }

    fn is_lasting(self) -> bool {
        self.scope == PermissionGrantScope::Session
    }
}

impl RequestHandler for ApproveAll {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        use CommandExecutionApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_lasting() { AcceptForSession } else { Accept })
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        use FileChangeApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_lasting() { AcceptForSession } else { Accept })
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        Ok(granted(asked, self.scope))
    }

    async fn user_input(
        &self,
        asked: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        Ok(approve_input(&asked))
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        // A form that nobody has to fill is a question for a yes. Others need a person, as pages do.
        let is_approval = matches!(
            &asked.request,
            McpServerElicitationRequest::Form { requested_schema, .. }
                if requested_schema.required.as_ref().is_none_or(Vec::is_empty)
        );
        let action = match is_approval {
            true => McpServerElicitationAction::Accept,
            false => McpServerElicitationAction::Decline,
        };
        let content = is_approval.then(|| json!({}));
        let meta = (is_approval && self.is_lasting()).then(|| json!({ "persist": "session" }));
        Ok(McpServerElicitationRequestResponse { action, content, meta })
    }
}

/// Ends a turn that asks for anything, so that whoever runs it can decide what to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailTurn;

impl RequestHandler for FailTurn {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        Err(NoAnswer::EndTurn)
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        Err(NoAnswer::EndTurn)
    }

    async fn approve_permissions(
        &self,
        _: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        Err(NoAnswer::EndTurn)
    }

    async fn user_input(&self, _: ToolRequestUserInputParams) -> HandlerAnswer<ToolRequestUserInputResponse> {
        Err(NoAnswer::EndTurn)
    }

    async fn elicitation(
        &self,
        _: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        Err(NoAnswer::EndTurn)
    }
}

/// Something to be approved.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalRequest {
    /// A command that wants to run, or to reach a host.
    Command(CommandExecutionRequestApprovalParams),
    /// Edits; the item that came before has them.
    FileChange(FileChangeRequestApprovalParams),
    /// Permissions for commands to come.
    Permissions(PermissionsRequestApprovalParams),
}

/// What [`ask`]'s closure decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// This once.
    Accept,
    /// This and its like, for the rest of the thread.
    AcceptForSession,
    /// The agent is told, and goes on without.
    Decline,
    /// The turn ends.
    Cancel,
}

/// Puts approvals to a closure and declines everything else.
///
/// ```
/// use codicil_client::{ApprovalRequest, Client, ApprovalDecision, ask};
///
/// let builder = Client::builder().handler(ask(|approval| async move {
///     match approval {
///         ApprovalRequest::Command(asked) if asked.command.as_deref() == Some("make test") => ApprovalDecision::Accept,
///         _ => ApprovalDecision::Decline,
///     }
/// }));
/// ```
pub fn ask<F, D>(decide: F) -> impl RequestHandler
where
    F: Fn(ApprovalRequest) -> D + Send + Sync + 'static,
    D: Future<Output = ApprovalDecision> + Send + 'static,
{
    AskHandler(decide)
}

struct AskHandler<F>(F);

impl<F, D> RequestHandler for AskHandler<F>
where
    F: Fn(ApprovalRequest) -> D + Send + Sync + 'static,
    D: Future<Output = ApprovalDecision> + Send + 'static,
{
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        Ok(match (self.0)(ApprovalRequest::Command(asked)).await {
            ApprovalDecision::Accept => CommandExecutionApprovalDecision::Accept,
            ApprovalDecision::AcceptForSession => CommandExecutionApprovalDecision::AcceptForSession,
            ApprovalDecision::Decline => CommandExecutionApprovalDecision::Decline,
            ApprovalDecision::Cancel => CommandExecutionApprovalDecision::Cancel,
        })
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        Ok(match (self.0)(ApprovalRequest::FileChange(asked)).await {
            ApprovalDecision::Accept => FileChangeApprovalDecision::Accept,
            ApprovalDecision::AcceptForSession => FileChangeApprovalDecision::AcceptForSession,
            ApprovalDecision::Decline => FileChangeApprovalDecision::Decline,
            ApprovalDecision::Cancel => FileChangeApprovalDecision::Cancel,
        })
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        match (self.0)(ApprovalRequest::Permissions(asked.clone())).await {
            ApprovalDecision::Accept => Ok(granted(asked, PermissionGrantScope::Turn)),
            ApprovalDecision::AcceptForSession => Ok(granted(asked, PermissionGrantScope::Session)),
            ApprovalDecision::Decline => DeclineAll.approve_permissions(asked).await,
            ApprovalDecision::Cancel => Err(NoAnswer::EndTurn),
        }
    }
}

fn granted(
    asked: PermissionsRequestApprovalParams,
    scope: PermissionGrantScope,
) -> PermissionsRequestApprovalResponse {
    let wanted = asked.permissions;
    let permissions = GrantedPermissionProfile { network: wanted.network, file_system: wanted.file_system };
    PermissionsRequestApprovalResponse { permissions, scope }
}

/// Says yes where a question offers it, and that nobody is there where it does not.
fn approve_input(asked: &ToolRequestUserInputParams) -> ToolRequestUserInputResponse {
    answer_each(asked, &["approve this session", "approve once", "approve", "allow", "accept"])
}

/// Says no where a question offers it, and that nobody is there where it does not.
pub(crate) fn decline_input(asked: &ToolRequestUserInputParams) -> ToolRequestUserInputResponse {
    answer_each(asked, &["deny", "decline", "reject", "cancel"])
}

/// Answers each question with its first option that begins with one of the words, tried in order.
fn answer_each(asked: &ToolRequestUserInputParams, wanted: &[&str]) -> ToolRequestUserInputResponse {
    let begins = |option: &ToolRequestUserInputOption, word: &str| {
        option.label.to_lowercase().trim_start().starts_with(word)
    };
    let answers = asked.questions.iter().map(|question| {
        let options = question.options.as_deref().unwrap_or_default();
        let label = wanted.iter().find_map(|word| options.iter().find(|option| begins(option, word)));
        let text = label.map_or(NON_INTERACTIVE, |option| &option.label).to_owned();
        (question.id.clone(), ToolRequestUserInputAnswer { answers: vec![text] })
    });
    ToolRequestUserInputResponse { answers: answers.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(options: Option<&[&str]>) -> ToolRequestUserInputParams {
        let options = options.map(|labels| {
            labels.iter().map(|label| json!({ "label": label, "description": "" })).collect::<Vec<_>>()
        });
        serde_json::from_value(json!({
            "threadId": "t", "turnId": "u", "itemId": "i",
            "questions": [{ "id": "q", "header": "", "question": "?", "options": options }],
        }))
        .unwrap()
    }

    #[test]
    fn questions_are_answered_without_a_person() {
        let check = |options: Option<&[&str]>, yes: &str, no: &str| {
            let answer = |response: ToolRequestUserInputResponse| response.answers["q"].answers.join("|");
            assert_eq!(answer(approve_input(&asked(options))), yes, "{options:?}");
            assert_eq!(answer(decline_input(&asked(options))), no, "{options:?}");
        };
        check(
            Some(&["Approve Once", "Approve this Session", "Deny", "Cancel"]),
            "Approve this Session",
            "Deny",
        );
        check(Some(&["Cancel", "Allow"]), "Allow", "Cancel");
        check(Some(&["Red", "Blue"]), NON_INTERACTIVE, NON_INTERACTIVE);
        check(None, NON_INTERACTIVE, NON_INTERACTIVE);
    }
}
