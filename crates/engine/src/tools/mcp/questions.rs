//! Questions of MCP servers to the user while a tool runs: forms, pages, and logins for scopes that a call lacks.

use std::{pin::Pin, sync::Arc};

use codicil_mcp::{CallError, Elicitor, McpTool, OauthLogin};
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, ThreadId, TurnId,
};
use uuid::Uuid;

use crate::tools::{
    TurnTools,
    ask::{QuestionKind, QuestionReply, QuestionSender},
    call::TurnCancelled,
};

/// Returns the elicitor that all MCP calls of the turn share.
pub(super) fn elicitor(turn: &TurnTools) -> Arc<dyn Elicitor> {
    let make = || -> Arc<dyn Elicitor> {
        Arc::new(ServerElicitor {
            thread_id: turn.thread_id(),
            turn_id: turn.turn_id.clone(),
            asker: turn.asker(),
            can_ask: why_not_ask(&turn.settings.approval_policy, QuestionTopic::McpElicitations).is_none(),
        })
    };
    turn.elicitor.get_or_init(make).clone()
}

/// Forwards the questions of MCP servers to the thread's subscribers.
struct ServerElicitor {
    thread_id: ThreadId,
    turn_id: TurnId,
    asker: QuestionSender,
    /// Whether the approval policy allows questions.
    can_ask: bool,
}

impl Elicitor for ServerElicitor {
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = McpServerElicitationRequestResponse> + Send + 'a>> {
        Box::pin(async move {
            if !self.can_ask {
                return without_content(McpServerElicitationAction::Decline);
            }
            let params = McpServerElicitationRequestParams {
                thread_id: self.thread_id.clone(),
                turn_id: Some(self.turn_id.clone()),
                server_name: server.to_owned(),
                request,
            };
            match self.asker.ask::<McpServerElicitation>(params, QuestionKind::Approval).await {
                Ok(QuestionReply::Answer(answer)) => answer,
                Ok(QuestionReply::Unreadable | QuestionReply::Error) => {
                    without_content(McpServerElicitationAction::Decline)
                }
                Err(_) => without_content(McpServerElicitationAction::Cancel),
            }
        })
    }
}

pub(super) fn without_content(action: McpServerElicitationAction) -> McpServerElicitationRequestResponse {
    McpServerElicitationRequestResponse { action, content: None, meta: None }
}

/// Asks the user to sign in again if a call failed because its token is no longer accepted or lacks scopes. Returns
/// whether the user has.
pub(super) async fn restore_access(
    turn: &TurnTools,
    tool: &McpTool,
    error: &CallError,
) -> Result<bool, TurnCancelled> {
    let server = &tool.server;
    let message = match error {
        CallError::MissingScopes(scopes) => format!(
            "The {server} MCP server needs more access to run tool \"{}\" ({}). Sign in to it to continue.",
            tool.tool.name,
            scopes.join(" ")
        ),
        CallError::NotSignedIn => {
            format!("The {server} MCP server requires signing in again to run tool \"{}\".", tool.tool.name)
        }
        _ => return Ok(false),
    };
    sign_in(turn, server, message).await
}

/// Asks the user to sign in to a server. Returns whether the user has.
pub(super) async fn sign_in(turn: &TurnTools, server: &str, message: String) -> Result<bool, TurnCancelled> {
    if why_not_ask(&turn.settings.approval_policy, QuestionTopic::McpElicitations).is_some() {
        return Ok(false);
    }
    let OauthLogin { authorization_url, mut completion } = match turn.thread.servers.login(server).await {
        Ok(login) => login,
        Err(error) => {
            tracing::warn!("cannot ask the user to sign in to an MCP server: {error}");
            return Ok(false);
        }
    };
    let params = McpServerElicitationRequestParams {
        thread_id: turn.thread_id(),
        turn_id: Some(turn.turn_id.clone()),
        server_name: server.to_owned(),
        request: McpServerElicitationRequest::Url {
            meta: None,
            message,
            url: authorization_url,
            elicitation_id: Uuid::now_v7().to_string(),
        },
    };
    let is_accepted = tokio::select! {
        // The user need not answer after signing in.
        completed = &mut completion => return Ok(completed.is_ok()),
        reply = turn.ask::<McpServerElicitation>(params, QuestionKind::Approval) => matches!(
            reply?,
            QuestionReply::Answer(answer) if answer.action == McpServerElicitationAction::Accept
        ),
    };
    if !is_accepted {
        return Ok(false);
    }
    let completed = turn.cancel.run_until_cancelled(completion).await.ok_or(TurnCancelled)?;
    Ok(completed.inspect_err(|error| tracing::warn!("signing in to an MCP server failed: {error}")).is_ok())
}
