//! Answers for questions that come although nobody is there: no, and it is said.

use codicil_client::{HandlerAnswer, RequestHandler};
use codicil_protocol::{
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
    FileChangeRequestApprovalParams, GrantedPermissionProfile, McpServerElicitationAction,
    McpServerElicitationRequest, McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
    PermissionGrantScope, PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
};
use tokio::sync::mpsc;

/// Declines, and tells what it declined.
pub struct DeclineHandler {
    said: mpsc::Sender<String>,
}

impl DeclineHandler {
    /// The handler, and the sentences it says.
    pub fn new() -> (Self, mpsc::Receiver<String>) {
        let (said, sentences) = mpsc::channel(64);
        (Self { said }, sentences)
    }

    fn say(&self, sentence: String) {
        // With 64 sentences unread, one more is no news.
        let _ = self.said.try_send(sentence);
    }
}

impl RequestHandler for DeclineHandler {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        let what = match (asked.network_approval_context, asked.command) {
            (Some(network), _) => format!("access to {}", network.host),
            (None, Some(command)) => format!("the command `{command}`"),
            (None, None) => "a command".to_owned(),
        };
        self.say(format!("declined {what}: nobody is here to approve it"));
        Ok(CommandExecutionApprovalDecision::Decline)
    }

    async fn approve_file_change(
        &self,
        _: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        self.say("declined changes to files: nobody is here to approve them".to_owned());
        Ok(FileChangeApprovalDecision::Decline)
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        let reason = asked.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        self.say(format!("declined further permissions{reason}: nobody is here to approve them"));
        let permissions = GrantedPermissionProfile::default();
        Ok(PermissionsRequestApprovalResponse { permissions, scope: PermissionGrantScope::Turn })
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        let (McpServerElicitationRequest::Form { message, .. }
        | McpServerElicitationRequest::Url { message, .. }) = asked.request;
        self.say(format!("declined a question of {}: {message}", asked.server_name));
        let action = McpServerElicitationAction::Decline;
        Ok(McpServerElicitationRequestResponse { action, content: None, meta: None })
    }
}
