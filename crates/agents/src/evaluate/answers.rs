//! What the server is answered while nobody is there to ask: as the approval policy says.

use codicil_client::{
    Answer, Approve, Decline, Handler, NoAnswer,
    protocol::{
        ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, CommandExecutionApprovalDecision,
        CommandExecutionRequestApprovalParams, FileChangeApprovalDecision, FileChangeRequestApprovalParams,
        McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
        PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ToolRequestUserInputParams,
        ToolRequestUserInputResponse,
    },
};

use super::{auth::Auth, config::ApprovalPolicy};

/// Answers by policy, and gives fresh tokens where there are any.
pub(super) struct Answers {
    pub policy: ApprovalPolicy,
    pub auth: Option<Auth>,
}

impl Handler for Answers {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> Answer<CommandExecutionApprovalDecision> {
        match self.policy.accepts() {
            true => Approve::once().approve_command(asked).await,
            false => Decline.approve_command(asked).await,
        }
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> Answer<FileChangeApprovalDecision> {
        match self.policy.accepts() {
            true => Approve::once().approve_file_change(asked).await,
            false => Decline.approve_file_change(asked).await,
        }
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> Answer<PermissionsRequestApprovalResponse> {
        match self.policy.accepts() {
            true => Approve::once().approve_permissions(asked).await,
            false => Decline.approve_permissions(asked).await,
        }
    }

    async fn user_input(&self, asked: ToolRequestUserInputParams) -> Answer<ToolRequestUserInputResponse> {
        match self.policy.accepts() {
            true => Approve::once().user_input(asked).await,
            false => Decline.user_input(asked).await,
        }
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> Answer<McpServerElicitationRequestResponse> {
        match self.policy.accepts() {
            true => Approve::once().elicitation(asked).await,
            false => Decline.elicitation(asked).await,
        }
    }

    async fn refresh_tokens(
        &self,
        asked: ChatgptAuthTokensRefreshParams,
    ) -> Answer<ChatgptAuthTokensRefreshResponse> {
        match &self.auth {
            Some(auth) => auth.refresh(asked).await,
            None => Err(NoAnswer::because("this client does not manage tokens")),
        }
    }
}
