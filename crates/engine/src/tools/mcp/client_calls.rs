//! Tools and resources that a client uses through a thread's MCP connections, outside its turns: nothing is stored or shown
//! as an item, and no approval is needed, since the client itself asks.

use std::{pin::Pin, sync::Arc};

use codicil_mcp::{CallError, Elicitor, McpCall};
use codicil_protocol::{
    Frame, McpServerElicitation, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, McpServerToolCallParams,
    McpServerToolCallResponse, ServerRequestResolved, ServerRequestResolvedNotification,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::questions::without_content;
use crate::tools::thread_tools::ThreadTools;

/// The MCP servers of a loaded thread, for its clients.
#[derive(Clone)]
pub struct ThreadMcpServers(Arc<ThreadTools>);

/// Why a client's call of a tool has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientCallError {
    #[error("tool call failed for `{server}/{tool}`: MCP tool arguments must be a JSON object, got {given}")]
    Arguments { server: String, tool: String, given: Value },
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ThreadMcpServers {
    pub(crate) fn new(tools: Arc<ThreadTools>) -> Self {
        Self(tools)
    }

    /// Calls a tool. Dropping the future cancels the call.
    pub async fn call(
        &self,
        params: McpServerToolCallParams,
    ) -> Result<McpServerToolCallResponse, ClientCallError> {
        let McpServerToolCallParams { server, tool, arguments, meta, .. } = params;
        let arguments = match arguments {
            None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
            Some(arguments @ Value::Object(_)) => arguments,
            Some(given) => return Err(ClientCallError::Arguments { server, tool, given }),
        };
        let elicitor: Arc<dyn Elicitor> = Arc::new(ClientElicitor(self.0.clone()));
        let cancel = CancellationToken::new();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let call =
            McpCall { server, tool, arguments, meta, progress: None, elicitor: Some(elicitor), cancel };
        let outcome = self.0.servers.call(call).await?;
        Ok(McpServerToolCallResponse {
            content: outcome.result.content,
            structured_content: outcome.result.structured_content,
            is_error: outcome.is_error.then_some(true),
            meta: outcome.result.meta,
        })
    }

    /// Reads a resource and returns its parts.
    pub async fn read(&self, server: &str, uri: &str) -> Result<Vec<Value>, CallError> {
        self.0.servers.resource_contents(server, uri).await
    }
}

impl std::fmt::Debug for ThreadMcpServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ThreadMcpServers").field(&self.0.thread_id).finish()
    }
}

/// Forwards the questions of MCP servers to the thread's subscribers. They belong to no turn.
struct ClientElicitor(Arc<ThreadTools>);

impl Elicitor for ClientElicitor {
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = McpServerElicitationRequestResponse> + Send + 'a>> {
        Box::pin(async move {
            let ThreadTools { engine, thread_id, .. } = &*self.0;
            let params = McpServerElicitationRequestParams {
                thread_id: thread_id.clone(),
                turn_id: None,
                server_name: server.to_owned(),
                request,
            };
            let question =
                engine.clients.ask(thread_id, &|id| Frame::request::<McpServerElicitation>(id, &params));
            let answer = question.answer.await;
            let resolved =
                ServerRequestResolvedNotification { thread_id: thread_id.clone(), request_id: question.id };
            let frame = Frame::notification::<ServerRequestResolved>(&resolved);
            engine.clients.notify_subscribers(thread_id, &frame);
            match answer.map(|answer| answer.reply) {
                Ok(Ok(reply)) => serde_json::from_str(reply.get())
                    .unwrap_or_else(|_| without_content(McpServerElicitationAction::Decline)),
                Ok(Err(_)) => without_content(McpServerElicitationAction::Decline),
                Err(_) => without_content(McpServerElicitationAction::Cancel),
            }
        })
    }
}
