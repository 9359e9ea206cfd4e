//! Declines all server requests, and reports each one.

use codicil_client::{FileChangeApproval, HandlerAnswer, RequestHandler};
use codicil_protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
    GrantedPermissionProfile, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, PermissionGrantScope,
    PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
};
use tokio::sync::mpsc;

/// Declines requests and sends a description of each.
pub struct DeclineHandler {
    declined: mpsc::Sender<String>,
}

impl DeclineHandler {
    /// Returns the handler and the receiver of its descriptions.
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (declined, descriptions) = mpsc::channel(64);
        (Self { declined }, descriptions)
    }

    fn report(&self, description: String) {
        // Dropped if 64 descriptions are unread.
        let _ = self.declined.try_send(description);
    }
}

impl RequestHandler for DeclineHandler {
    async fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        let what = match (params.network_approval_context, params.command) {
            (Some(network), _) => format!("access to {}", network.host),
            (None, Some(command)) => format!("the command `{command}`"),
            (None, None) => "a command".to_owned(),
        };
        self.report(format!("declined {what}: exec cannot ask for approval"));
        Ok(CommandExecutionApprovalDecision::Decline)
    }

    async fn approve_file_change(&self, _: FileChangeApproval) -> HandlerAnswer<FileChangeApprovalDecision> {
        self.report("declined changes to files: exec cannot ask for approval".to_owned());
        Ok(FileChangeApprovalDecision::Decline)
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        let reason = params.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        self.report(format!("declined further permissions{reason}: exec cannot ask for approval"));
        let permissions = GrantedPermissionProfile::default();
        Ok(PermissionsRequestApprovalResponse {
            permissions,
            scope: PermissionGrantScope::Turn,
            strict_auto_review: None,
        })
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        let (McpServerElicitationRequest::Form { message, .. }
        | McpServerElicitationRequest::Url { message, .. }) = params.request;
        self.report(format!("declined a question of {}: {message}", params.server_name));
        let action = McpServerElicitationAction::Decline;
        Ok(McpServerElicitationRequestResponse { action, content: None, meta: None })
    }
}
