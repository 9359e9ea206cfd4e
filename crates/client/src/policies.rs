//! Ready-made handlers: decline, approve, fail the turn, or ask a closure.

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

/// The answer to a question that only a user could answer.
pub const NON_INTERACTIVE: &str = "This is a non-interactive session. Operator input is unavailable.";

/// Declines every request. This is the default handler.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeclineAll;

impl RequestHandler for DeclineAll {}

/// Approves every command, edit and permission, and answers the agent's questions without a user.
///
/// Nothing is inspected before it is approved. Use this only for servers that are confined in another way.
#[derive(Clone, Copy, Debug)]
pub struct ApproveAll {
    scope: PermissionGrantScope,
}

impl ApproveAll {
    /// Approves each request once.
    pub fn once() -> Self {
        Self { scope: PermissionGrantScope::Turn }
    }

    /// Approves for the rest of the session: `acceptForSession`, in the older format `approved_for_session`.
    pub fn for_session() -> Self {
        Self { scope: PermissionGrantScope::Session }
    }

    fn is_for_session(self) -> bool {
        self.scope == PermissionGrantScope::Session
    }
}

impl RequestHandler for ApproveAll {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        use CommandExecutionApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_for_session() { AcceptForSession } else { Accept })
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        use FileChangeApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_for_session() { AcceptForSession } else { Accept })
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        Ok(grant_all(params, self.scope))
    }

    async fn user_input(
        &self,
        params: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        Ok(approve_input(&params))
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        // A form without required fields asks for confirmation only. Other forms, and URLs, need a user.
        let is_confirmation = matches!(
            &params.request,
            McpServerElicitationRequest::Form { requested_schema, .. }
                if requested_schema.required.as_ref().is_none_or(Vec::is_empty)
        );
        if !is_confirmation {
            return DeclineAll.elicitation(params).await;
        }
        let action = McpServerElicitationAction::Accept;
        let meta = self.is_for_session().then(|| json!({ "persist": "session" }));
        Ok(McpServerElicitationRequestResponse { action, content: Some(json!({})), meta })
    }
}

/// Ends a turn that sends any request. Its caller receives [`ApprovalRequired`](crate::ClientError::ApprovalRequired)
/// or [`TurnInputRequired`](crate::ClientError::TurnInputRequired).
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

/// A request for approval, as [`ask`] passes it on.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalRequest {
    /// A command to run, or a host to reach.
    Command(CommandExecutionRequestApprovalParams),
    /// Edits. The preceding `fileChange` item holds the changes.
    FileChange(FileChangeRequestApprovalParams),
    /// Additional permissions for later commands.
    Permissions(PermissionsRequestApprovalParams),
}

/// The decision of [`ask`]'s closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Approve this request.
    Accept,
    /// Approve this and similar requests for the rest of the session.
    AcceptForSession,
    /// Decline. The agent continues without it.
    Decline,
    /// Decline and end the turn.
    Cancel,
}

/// Creates a handler that passes approvals to a closure and declines every other request.
///
/// ```
/// use codicil_client::{ApprovalRequest, Client, ApprovalDecision, ask};
///
/// let builder = Client::builder().handler(ask(|approval| async move {
///     match approval {
///         ApprovalRequest::Command(params) if params.command.as_deref() == Some("make test") => ApprovalDecision::Accept,
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
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        Ok(match (self.0)(ApprovalRequest::Command(params)).await {
            ApprovalDecision::Accept => CommandExecutionApprovalDecision::Accept,
            ApprovalDecision::AcceptForSession => CommandExecutionApprovalDecision::AcceptForSession,
            ApprovalDecision::Decline => CommandExecutionApprovalDecision::Decline,
            ApprovalDecision::Cancel => CommandExecutionApprovalDecision::Cancel,
        })
    }

    async fn approve_file_change(
        &self,
        params: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        Ok(match (self.0)(ApprovalRequest::FileChange(params)).await {
            ApprovalDecision::Accept => FileChangeApprovalDecision::Accept,
            ApprovalDecision::AcceptForSession => FileChangeApprovalDecision::AcceptForSession,
            ApprovalDecision::Decline => FileChangeApprovalDecision::Decline,
            ApprovalDecision::Cancel => FileChangeApprovalDecision::Cancel,
        })
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        match (self.0)(ApprovalRequest::Permissions(params.clone())).await {
            ApprovalDecision::Accept => Ok(grant_all(params, PermissionGrantScope::Turn)),
            ApprovalDecision::AcceptForSession => Ok(grant_all(params, PermissionGrantScope::Session)),
            ApprovalDecision::Decline => DeclineAll.approve_permissions(params).await,
            ApprovalDecision::Cancel => Err(NoAnswer::EndTurn),
        }
    }
}

fn grant_all(
    params: PermissionsRequestApprovalParams,
    scope: PermissionGrantScope,
) -> PermissionsRequestApprovalResponse {
    let requested = params.permissions;
    let permissions =
        GrantedPermissionProfile { network: requested.network, file_system: requested.file_system };
    PermissionsRequestApprovalResponse { permissions, scope }
}

/// Picks the approving option of each question, or answers [`NON_INTERACTIVE`].
fn approve_input(params: &ToolRequestUserInputParams) -> ToolRequestUserInputResponse {
    answer_each(params, &["approve this session", "approve once", "approve", "allow", "accept"])
}

/// Picks the declining option of each question, or answers [`NON_INTERACTIVE`].
pub(crate) fn decline_input(params: &ToolRequestUserInputParams) -> ToolRequestUserInputResponse {
    answer_each(params, &["deny", "decline", "reject", "cancel"])
}

/// Answers each question with its first option that begins with one of these words, tried in order.
fn answer_each(params: &ToolRequestUserInputParams, words: &[&str]) -> ToolRequestUserInputResponse {
    let begins = |option: &ToolRequestUserInputOption, word: &str| {
        option.label.to_lowercase().trim_start().starts_with(word)
    };
    let answers = params.questions.iter().map(|question| {
        let options = question.options.as_deref().unwrap_or_default();
        let picked = words.iter().find_map(|word| options.iter().find(|option| begins(option, word)));
        let text = picked.map_or(NON_INTERACTIVE, |option| &option.label).to_owned();
        (question.id.clone(), ToolRequestUserInputAnswer { answers: vec![text] })
    });
    ToolRequestUserInputResponse { answers: answers.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input_request(options: Option<&[&str]>) -> ToolRequestUserInputParams {
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
    fn questions_are_answered_without_a_user() {
        let check = |options: Option<&[&str]>, approved: &str, declined: &str| {
            let answer = |response: ToolRequestUserInputResponse| response.answers["q"].answers.join("|");
            assert_eq!(answer(approve_input(&input_request(options))), approved, "{options:?}");
            assert_eq!(answer(decline_input(&input_request(options))), declined, "{options:?}");
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
