//! Answering one request of the server.

use std::sync::Arc;

use bytes::Bytes;
use codicil_protocol::{
    Frame, ServerRequest, TurnInterrupt, TurnInterruptParams,
    rpc::{ErrorObject, RequestId, codes},
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use crate::{
    collect::TurnOutcome,
    handler::{AnyHandler, HandlerAnswer, NoAnswer},
    ids::MessageIds,
    receive::fire,
    shared::ClientShared,
    tools::ClientTools,
};

/// A request of the server.
pub struct IncomingRequest {
    id: RequestId,
    request: ServerRequest,
    kind: RequestKind,
    thread: Option<String>,
    turn: Option<String>,
    /// As it came, for whoever has to know why a turn was ended.
    payload: Value,
}

/// What a turn lacks when it gets no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Approval,
    Input,
}

impl IncomingRequest {
    pub fn new(id: RequestId, method: &str, params: Option<&RawValue>, request: ServerRequest) -> Self {
        let kind = match request {
            ServerRequest::ToolUserInput(_) | ServerRequest::McpServerElicitation(_) => RequestKind::Input,
            _ => RequestKind::Approval,
        };
        let ids = MessageIds::of(params);
        let (thread, turn) = (ids.thread.map(Into::into), ids.turn.map(Into::into));
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let payload = json!({ "id": id, "method": method, "params": params });
        Self { id, request, kind, thread, turn, payload }
    }

    fn ids(&self) -> MessageIds<'_> {
        MessageIds {
            thread: self.thread.as_deref().map(Into::into),
            turn: self.turn.as_deref().map(Into::into),
        }
    }
}

/// Who answers, and the way back. Does not keep the connection open.
#[derive(Clone)]
pub struct RequestResponder {
    pub handler: Arc<dyn AnyHandler>,
    pub tools: Arc<ClientTools>,
    pub shared: Arc<ClientShared>,
    pub outgoing: mpsc::WeakSender<Bytes>,
}

impl RequestResponder {
    /// Answers with an error without waiting.
    pub fn refuse(&self, id: &RequestId, error: ErrorObject) {
        let sent = self.outgoing.upgrade().map(|outgoing| outgoing.try_send(error_frame(id, &error)));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(%id, "a refusal was not sent: the server does not read, or is gone");
        }
    }

    pub async fn answer(self, mut question: IncomingRequest) {
        let guard = OnPanic { desk: &self, id: question.id.clone() };
        let request = std::mem::replace(&mut question.request, ServerRequest::Unknown(nothing()));
        let is_patch_or_command = is_approval_of_work(&request);
        let answer = match request {
            ServerRequest::DynamicToolCall(call) if self.tools.has(&call.tool) => {
                Ok(json!(self.tools.call(call).await))
            }
            request => self.handler.answer(request).await,
        };
        drop(guard);
        match answer {
            Err(NoAnswer::EndTurn) => self.end_turn(&question, is_patch_or_command).await,
            answer => self.send(&question.id, answer).await,
        }
    }

    async fn send(&self, id: &RequestId, answer: HandlerAnswer<Value>) {
        let message = match answer {
            Ok(result) => Frame::response(id, &result).bytes().clone(),
            Err(NoAnswer::Error(error)) => error_frame(id, &error),
            Err(NoAnswer::EndTurn) => error_frame(id, &unanswered()),
        };
        if let Some(outgoing) = self.outgoing.upgrade() {
            // Fails when the connection is over; then nobody waits for the answer.
            let _ = outgoing.send(message).await;
        }
    }

    /// First whoever runs the turn is told, with the question; then the server.
    async fn end_turn(&self, question: &IncomingRequest, can_cancel: bool) {
        let payload = &question.payload;
        self.shared.routes.end_turn(&question.ids(), || match question.kind {
            RequestKind::Approval => TurnOutcome::ApprovalRequired(payload.clone()),
            RequestKind::Input => TurnOutcome::InputRequired(payload.clone()),
        });
        // `cancel` ends the turn by itself. Where the server has no such answer, an interrupt follows.
        let is_older =
            question.payload.get("method").and_then(Value::as_str).is_some_and(|m| !m.contains('/'));
        let cancel = json!({ "decision": if is_older { "abort" } else { "cancel" } });
        let answer = if can_cancel { Ok(cancel) } else { Err(NoAnswer::EndTurn) };
        self.send(&question.id, answer).await;
        if let (Some(thread), Some(turn), Some(outgoing)) =
            (&question.thread, &question.turn, self.outgoing.upgrade())
            && !can_cancel
        {
            let params =
                TurnInterruptParams { thread_id: thread.as_str().into(), turn_id: turn.as_str().into() };
            fire::<TurnInterrupt>(&self.shared, &outgoing, &params);
        }
    }
}

fn is_approval_of_work(request: &ServerRequest) -> bool {
    matches!(
        request,
        ServerRequest::CommandExecutionApproval(_)
            | ServerRequest::FileChangeApproval(_)
            | ServerRequest::LegacyExecApproval(_)
            | ServerRequest::LegacyPatchApproval(_)
    )
}

fn error_frame(id: &RequestId, error: &ErrorObject) -> Bytes {
    Frame::error(id, error).bytes().clone()
}

fn unanswered() -> ErrorObject {
    let message = "this client does not answer; the turn ends".to_owned();
    ErrorObject { code: codes::INVALID_REQUEST, message, data: None }
}

fn nothing() -> codicil_protocol::rpc::Notification {
    codicil_protocol::rpc::Notification { method: String::new(), params: None }
}

/// A handler that panics must not leave the server waiting.
struct OnPanic<'a> {
    desk: &'a RequestResponder,
    id: RequestId,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "the client failed to answer".to_owned();
            self.desk.refuse(&self.id, ErrorObject { code: codes::INTERNAL_ERROR, message, data: None });
        }
    }
}
