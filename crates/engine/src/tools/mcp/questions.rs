//! Questions that MCP servers ask while one of their tools runs.

use std::{future::Future, pin::Pin, sync::Arc};

use codicil_mcp::Elicitor;
use codicil_policy::{QuestionTopic, why_not_ask};
use codicil_protocol::{
    McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, ThreadId, TurnId,
};

use super::TurnTools;
use crate::tools::ask::{QuestionKind, QuestionReply, QuestionSender};

/// Puts a server's questions to the thread's subscribers.
struct ServerElicitor {
    thread: ThreadId,
    turn: TurnId,
    asker: QuestionSender,
    /// Whether the policy lets anybody be asked.
    may_ask: bool,
}

impl TurnTools {
    /// One for all calls of the turn.
    pub(super) fn elicitor(&self) -> Arc<dyn Elicitor> {
        let make = || -> Arc<dyn Elicitor> {
            Arc::new(ServerElicitor {
                thread: self.kit.thread.clone(),
                turn: self.turn.clone(),
                asker: self.asker(),
                may_ask: why_not_ask(&self.settings.approval_policy, QuestionTopic::McpElicitations)
                    .is_none(),
            })
        };
        self.elicitor.get_or_init(make).clone()
    }
}

impl Elicitor for ServerElicitor {
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = McpServerElicitationRequestResponse> + Send + 'a>> {
        Box::pin(async move {
            if !self.may_ask {
                return answer(McpServerElicitationAction::Decline);
            }
            let params = McpServerElicitationRequestParams {
                thread_id: self.thread.clone(),
                turn_id: Some(self.turn.clone()),
                server_name: server.to_owned(),
                request,
            };
            match self.asker.ask::<McpServerElicitation>(params, QuestionKind::Approval).await {
                Ok(QuestionReply::Answer(answer)) => answer,
                Ok(QuestionReply::Nonsense | QuestionReply::Error) => {
                    answer(McpServerElicitationAction::Decline)
                }
                Err(_) => answer(McpServerElicitationAction::Cancel),
            }
        })
    }
}

fn answer(action: McpServerElicitationAction) -> McpServerElicitationRequestResponse {
    McpServerElicitationRequestResponse { action, content: None, meta: None }
}
