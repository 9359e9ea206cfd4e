//! Questions that MCP servers ask while one of their tools runs.

use std::{future::Future, pin::Pin, sync::Arc};

use codicil_mcp::Elicitor;
use codicil_policy::{Topic, why_not_ask};
use codicil_protocol::{
    McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, ThreadId, TurnId,
};

use super::TurnTools;
use crate::tools::ask::{Asker, Kind, Reply};

/// Puts a server's questions to the thread's subscribers.
struct Questions {
    thread: ThreadId,
    turn: TurnId,
    asker: Asker,
    /// Whether the policy lets anybody be asked.
    may_ask: bool,
}

impl TurnTools {
    /// One for all calls of the turn.
    pub(super) fn elicitor(&self) -> Arc<dyn Elicitor> {
        let make = || -> Arc<dyn Elicitor> {
            Arc::new(Questions {
                thread: self.kit.thread.clone(),
                turn: self.turn.clone(),
                asker: self.asker(),
                may_ask: why_not_ask(&self.settings.approval_policy, Topic::McpElicitations).is_none(),
            })
        };
        self.elicitor.get_or_init(make).clone()
    }
}

impl Elicitor for Questions {
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
            match self.asker.ask::<McpServerElicitation>(params, Kind::Approval).await {
                Ok(Reply::Answer(answer)) => answer,
                Ok(Reply::Nonsense | Reply::Error) => answer(McpServerElicitationAction::Decline),
                Err(_) => answer(McpServerElicitationAction::Cancel),
            }
        })
    }
}

fn answer(action: McpServerElicitationAction) -> McpServerElicitationRequestResponse {
    McpServerElicitationRequestResponse { action, content: None, meta: None }
}
