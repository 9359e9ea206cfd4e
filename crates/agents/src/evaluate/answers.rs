//! What the server is answered while nobody is there to ask: as the approval policy says.

use codicil_client::{
    ApproveAll, DeclineAll, HandlerAnswer, NoAnswer, RequestHandler,
    protocol::{
        ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, CommandExecutionApprovalDecision,
        CommandExecutionRequestApprovalParams, FileChangeApprovalDecision, FileChangeRequestApprovalParams,
        McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
        PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ToolRequestUserInputParams,
        ToolRequestUserInputResponse,
    },
};

use super::{auth::LoginMethod, config::ApprovalPolicy};

/// Answers by policy, and gives fresh tokens where there are any.
pub(super) struct PolicyResponder {
    pub policy: ApprovalPolicy,
    pub auth: Option<LoginMethod>,
}

impl RequestHandler for PolicyResponder {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        match self.policy.accepts() {
            true => ApproveAll::once().approve_command(asked).await,
            false => DeclineAll.approve_command(asked).await,
        }
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        match self.policy.accepts() {
            true => ApproveAll::once().approve_file_change(asked).await,
            false => DeclineAll.approve_file_change(asked).await,
        }
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        match self.policy.accepts() {
            true => ApproveAll::once().approve_permissions(asked).await,
            false => DeclineAll.approve_permissions(asked).await,
        }
    }

    async fn user_input(
        &self,
        asked: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        match self.policy.accepts() {
            true => ApproveAll::once().user_input(asked).await,
            false => DeclineAll.user_input(asked).await,
        }
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        match self.policy.accepts() {
            true => ApproveAll::once().elicitation(asked).await,
            false => DeclineAll.elicitation(asked).await,
        }
    }

    async fn refresh_tokens(
        &self,
        asked: ChatgptAuthTokensRefreshParams,
    ) -> HandlerAnswer<ChatgptAuthTokensRefreshResponse> {
        match &self.auth {
            Some(auth) => auth.refresh(asked).await,
            None => Err(NoAnswer::error("this client does not manage tokens")),
        }
    }
}
