//! Answers to approvals and other server requests. An evaluation runs without a user, so they are configured.

use codicil_client::{
    ApproveAll, DeclineAll, FileChangeApproval, HandlerAnswer, NoAnswer, RequestHandler,
    protocol::{
        ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, CommandExecutionApprovalDecision,
        CommandExecutionRequestApprovalParams, FileChangeApprovalDecision, McpServerElicitationRequestParams,
        McpServerElicitationRequestResponse, PermissionsRequestApprovalParams,
        PermissionsRequestApprovalResponse, ToolRequestUserInputParams, ToolRequestUserInputResponse,
    },
};

use super::login::LoginMethod;

/// The answer to everything that the server asks approval for.
///
/// What the server asks about is a different setting: [`ClientConfig::approval_policy`](super::ClientConfig).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnApproval {
    /// Accepts every request. The sandbox is the only limit.
    #[default]
    Accept,
    /// Declines every request. The agent continues without it.
    Decline,
}

/// Answers requests as configured, and renews account tokens.
pub(super) struct PolicyResponder {
    pub on_approval: OnApproval,
    pub login: Option<LoginMethod>,
}

impl RequestHandler for PolicyResponder {
    async fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        match self.on_approval {
            OnApproval::Accept => ApproveAll::once().approve_command(params).await,
            OnApproval::Decline => DeclineAll.approve_command(params).await,
        }
    }

    async fn approve_file_change(
        &self,
        approval: FileChangeApproval,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        match self.on_approval {
            OnApproval::Accept => ApproveAll::once().approve_file_change(approval).await,
            OnApproval::Decline => DeclineAll.approve_file_change(approval).await,
        }
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        match self.on_approval {
            OnApproval::Accept => ApproveAll::once().approve_permissions(params).await,
            OnApproval::Decline => DeclineAll.approve_permissions(params).await,
        }
    }

    async fn user_input(
        &self,
        params: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        match self.on_approval {
            OnApproval::Accept => ApproveAll::once().user_input(params).await,
            OnApproval::Decline => DeclineAll.user_input(params).await,
        }
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        match self.on_approval {
            OnApproval::Accept => ApproveAll::once().elicitation(params).await,
            OnApproval::Decline => DeclineAll.elicitation(params).await,
        }
    }

    async fn refresh_tokens(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> HandlerAnswer<ChatgptAuthTokensRefreshResponse> {
        match &self.login {
            Some(login) => login.refresh(params).await,
            None => Err(NoAnswer::error("this client does not manage tokens")),
        }
    }
}
