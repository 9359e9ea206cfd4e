//! Questions of MCP servers to the user while a tool runs: forms and pages.

use std::{pin::Pin, sync::Arc};

use codicil_mcp::Elicitor;
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, ThreadId, TurnId,
};

use crate::tools::{
    TurnTools,
    ask::{QuestionKind, QuestionReply, QuestionSender},
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
                Ok(QuestionReply::Nonsense | QuestionReply::Error) => {
                    without_content(McpServerElicitationAction::Decline)
                }
                Err(_) => without_content(McpServerElicitationAction::Cancel),
            }
        })
    }
}

fn without_content(action: McpServerElicitationAction) -> McpServerElicitationRequestResponse {
    McpServerElicitationRequestResponse { action, content: None, meta: None }
}
