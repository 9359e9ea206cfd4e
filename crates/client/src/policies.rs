//! Ready-made handlers: decline, approve, fail the turn, or ask a closure.

use codicil_protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
    McpServerElicitationRequest, McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
    PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ToolRequestUserInputAnswer,
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputResponse,
};

use crate::{
    approvals::{ApprovalDecision, ApprovalRequest, FileChangeApproval},
    handler::{HandlerAnswer, NoAnswer, RequestHandler},
};

/// The answer to a question that only a user could answer.
pub const NON_INTERACTIVE: &str = "This is a non-interactive session. Operator input is unavailable.";

/// Declines every request. This is the default handler.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeclineAll;

impl RequestHandler for DeclineAll {}

/// Approves every command, edit and permission, and answers the agent's questions without a user.
///
/// Nothing is inspected before it is approved. Use this only for servers that are confined in another way.
#[derive(Clone, Debug)]
pub struct ApproveAll {
    decision: ApprovalDecision,
}

impl ApproveAll {
    /// Approves each request once.
    pub fn once() -> Self {
        Self { decision: ApprovalDecision::Accept }
    }

    /// Approves for the rest of the session: `acceptForSession`, in the older format `approved_for_session`.
    pub fn for_session() -> Self {
        Self { decision: ApprovalDecision::AcceptForSession }
    }
}

impl RequestHandler for ApproveAll {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        Ok(self.decision.clone().about_command()?)
    }

    async fn approve_file_change(&self, _: FileChangeApproval) -> HandlerAnswer<FileChangeApprovalDecision> {
        Ok(self.decision.clone().about_file_change()?)
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        self.decision.clone().about_permissions(&params)?.ok_or(NoAnswer::EndTurn)
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
        let is_form = matches!(params.request, McpServerElicitationRequest::Form { .. });
        match self.decision.clone().about_elicitation(&params) {
            Ok(Some(answer)) if is_form => Ok(answer),
            // Web pages, and forms with required fields, need a user.
            _ => DeclineAll.elicitation(params).await,
        }
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

    async fn approve_file_change(&self, _: FileChangeApproval) -> HandlerAnswer<FileChangeApprovalDecision> {
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

/// Creates a handler that passes approvals and elicitations to a closure and declines every other request.
///
/// A decision that does not answer its request ([`ApprovalRequest::check`]) becomes an error response, which declines
/// the request.
///
/// ```
/// use codicil_client::{ApprovalRequest, Client, ApprovalDecision, ask};
///
/// let builder = Client::builder().handler(ask(|approval| async move {
///     match approval {
///         ApprovalRequest::Command(params) if params.command.as_deref() == Some("make test") => ApprovalDecision::Accept,
///         ApprovalRequest::FileChange(edits) if edits.changes.iter().all(|change| change.path.ends_with(".md")) => {
///             ApprovalDecision::Accept
///         }
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
        Ok((self.0)(ApprovalRequest::Command(params)).await.about_command()?)
    }

    async fn approve_file_change(
        &self,
        approval: FileChangeApproval,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        Ok((self.0)(ApprovalRequest::FileChange(approval)).await.about_file_change()?)
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        let decision = (self.0)(ApprovalRequest::Permissions(params.clone())).await;
        decision.about_permissions(&params)?.ok_or(NoAnswer::EndTurn)
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        let decision = (self.0)(ApprovalRequest::Elicitation(params.clone())).await;
        decision.about_elicitation(&params)?.ok_or(NoAnswer::EndTurn)
    }
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
    use serde_json::json;

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
