//! Questions that are answered on the connection that asked them: hosts that a command wants to reach, and requests of MCP
//! servers.
//!
//! The other server requests are left open here, because `codicil/request/answer` answers them.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use codicil_client::{
    FileChangeApproval, HandlerAnswer, NoAnswer, RequestHandler,
    protocol::{
        ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, CommandExecutionApprovalDecision,
        CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse,
        DynamicToolCallParams, DynamicToolCallResponse, FileChangeApprovalDecision,
        McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
        PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ServerRequest,
        ToolRequestUserInputParams, ToolRequestUserInputResponse, rpc,
    },
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

/// The questions that wait on this connection.
#[derive(Debug, Default)]
pub struct LiveQuestions {
    open: Mutex<BTreeMap<u64, LiveQuestion>>,
    next_id: AtomicU64,
    /// Notified when a question was added or removed.
    pub changed: Notify,
}

#[derive(Debug)]
struct LiveQuestion {
    request: ServerRequest,
    answer: oneshot::Sender<Value>,
}

impl LiveQuestions {
    /// Returns the open questions with their ids.
    pub fn open(&self) -> Vec<(u64, ServerRequest)> {
        self.open.lock().iter().map(|(id, question)| (*id, question.request.clone())).collect()
    }

    /// Answers a question. Returns false if it is not open any more.
    pub fn answer(&self, id: u64, answer: Value) -> bool {
        let question = self.open.lock().remove(&id);
        self.changed.notify_one();
        question.is_some_and(|question| question.answer.send(answer).is_ok())
    }
}

/// Holds the server requests of a connection until they are answered or withdrawn.
#[derive(Debug)]
pub struct QuestionHandler(pub Arc<LiveQuestions>);

impl QuestionHandler {
    /// Shows a question and waits for its answer. Dropped when the server withdraws the question.
    async fn ask<T: DeserializeOwned>(&self, request: ServerRequest) -> HandlerAnswer<T> {
        let (sender, answer) = oneshot::channel();
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        self.0.open.lock().insert(id, LiveQuestion { request, answer: sender });
        self.0.changed.notify_one();
        let _removal = RemoveOnDrop { questions: &self.0, id };
        let answer = answer.await.map_err(|_| NoAnswer::error("the console is ending"))?;
        serde_json::from_value(answer).map_err(|error| NoAnswer::error(error.to_string()))
    }
}

struct RemoveOnDrop<'a> {
    questions: &'a LiveQuestions,
    id: u64,
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        self.questions.open.lock().remove(&self.id);
        self.questions.changed.notify_one();
    }
}

impl RequestHandler for QuestionHandler {
    async fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        if params.network_approval_context.is_none() {
            return pending().await;
        }
        let request = ServerRequest::CommandExecutionApproval(params);
        Ok(self.ask::<CommandExecutionRequestApprovalResponse>(request).await?.decision)
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        self.ask(ServerRequest::McpServerElicitation(params)).await
    }

    async fn approve_file_change(&self, _: FileChangeApproval) -> HandlerAnswer<FileChangeApprovalDecision> {
        pending().await
    }

    async fn approve_permissions(
        &self,
        _: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        pending().await
    }

    async fn user_input(&self, _: ToolRequestUserInputParams) -> HandlerAnswer<ToolRequestUserInputResponse> {
        pending().await
    }

    /// Another client has offered the tool, and answers.
    async fn call_tool(&self, _: DynamicToolCallParams) -> HandlerAnswer<DynamicToolCallResponse> {
        pending().await
    }

    async fn refresh_tokens(
        &self,
        _: ChatgptAuthTokensRefreshParams,
    ) -> HandlerAnswer<ChatgptAuthTokensRefreshResponse> {
        pending().await
    }

    async fn other(&self, _: rpc::Notification) -> HandlerAnswer<Value> {
        pending().await
    }
}
