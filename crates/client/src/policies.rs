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

use crate::handler::{Answer, Handler, NoAnswer};

/// What the agent reads where a person would have answered.
pub const NON_INTERACTIVE: &str = "This is a non-interactive session. Operator input is unavailable.";

/// Declines everything. This is what a client does that was not told otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decline;

impl Handler for Decline {}

/// Approves every command, edit and permission, and answers the agent's questions without a person.
///
/// Only for servers that are confined in another way: nothing is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Approve {
    scope: PermissionGrantScope,
}

impl Approve {
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

impl Handler for Approve {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> Answer<CommandExecutionApprovalDecision> {
        use CommandExecutionApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_lasting() { AcceptForSession } else { Accept })
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> Answer<FileChangeApprovalDecision> {
        use FileChangeApprovalDecision::{Accept, AcceptForSession};
        Ok(if self.is_lasting() { AcceptForSession } else { Accept })
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> Answer<PermissionsRequestApprovalResponse> {
        Ok(granted(asked, self.scope))
    }

    async fn user_input(&self, asked: ToolRequestUserInputParams) -> Answer<ToolRequestUserInputResponse> {
        Ok(approve_input(&asked))
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> Answer<McpServerElicitationRequestResponse> {
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

impl Handler for FailTurn {
    async fn approve_command(
        &self,
        _: CommandExecutionRequestApprovalParams,
    ) -> Answer<CommandExecutionApprovalDecision> {
        Err(NoAnswer::EndTurn)
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> Answer<FileChangeApprovalDecision> {
        Err(NoAnswer::EndTurn)
    }

    async fn approve_permissions(
        &self,
        _: PermissionsRequestApprovalParams,
    ) -> Answer<PermissionsRequestApprovalResponse> {
        Err(NoAnswer::EndTurn)
    }

    async fn user_input(&self, _: ToolRequestUserInputParams) -> Answer<ToolRequestUserInputResponse> {
        Err(NoAnswer::EndTurn)
    }

    async fn elicitation(
        &self,
        _: McpServerElicitationRequestParams,
    ) -> Answer<McpServerElicitationRequestResponse> {
        Err(NoAnswer::EndTurn)
    }
}

/// Something to be approved.
#[derive(Clone, Debug, PartialEq)]
pub enum Approval {
    /// A command that wants to run, or to reach a host.
    Command(CommandExecutionRequestApprovalParams),
    /// Edits; the item that came before has them.
    FileChange(FileChangeRequestApprovalParams),
    /// Permissions for commands to come.
    Permissions(PermissionsRequestApprovalParams),
}

/// What [`ask`]'s closure decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
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
/// use codicil_client::{Approval, Client, Decision, ask};
///
/// let builder = Client::builder().handler(ask(|approval| async move {
///     match approval {
///         Approval::Command(asked) if asked.command.as_deref() == Some("make test") => Decision::Accept,
///         _ => Decision::Decline,
///     }
/// }));
/// ```
pub fn ask<F, D>(decide: F) -> impl Handler
where
    F: Fn(Approval) -> D + Send + Sync + 'static,
    D: Future<Output = Decision> + Send + 'static,
{
    Ask(decide)
}

struct Ask<F>(F);

impl<F, D> Handler for Ask<F>
where
    F: Fn(Approval) -> D + Send + Sync + 'static,
    D: Future<Output = Decision> + Send + 'static,
{
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> Answer<CommandExecutionApprovalDecision> {
        Ok(match (self.0)(Approval::Command(asked)).await {
            Decision::Accept => CommandExecutionApprovalDecision::Accept,
            Decision::AcceptForSession => CommandExecutionApprovalDecision::AcceptForSession,
            Decision::Decline => CommandExecutionApprovalDecision::Decline,
            Decision::Cancel => CommandExecutionApprovalDecision::Cancel,
        })
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> Answer<FileChangeApprovalDecision> {
        Ok(match (self.0)(Approval::FileChange(asked)).await {
            Decision::Accept => FileChangeApprovalDecision::Accept,
            Decision::AcceptForSession => FileChangeApprovalDecision::AcceptForSession,
            Decision::Decline => FileChangeApprovalDecision::Decline,
            Decision::Cancel => FileChangeApprovalDecision::Cancel,
        })
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> Answer<PermissionsRequestApprovalResponse> {
        match (self.0)(Approval::Permissions(asked.clone())).await {
            Decision::Accept => Ok(granted(asked, PermissionGrantScope::Turn)),
            Decision::AcceptForSession => Ok(granted(asked, PermissionGrantScope::Session)),
            Decision::Decline => Decline.approve_permissions(asked).await,
            Decision::Cancel => Err(NoAnswer::EndTurn),
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
