//! Answers one server request: runs the tool or handler and sends the response.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use codicil_protocol::{
    FileUpdateChange, Frame, ServerRequest, TurnInterrupt, TurnInterruptParams,
    rpc::{ErrorObject, RequestId, codes},
};
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{
    collect::TurnOutcome,
    handler::{AnyHandler, HandlerAnswer, NoAnswer},
    ids::MessageIds,
    open_edits::OpenEdits,
    receiver::send_and_forget,
    shared::ClientShared,
    tools::ClientTools,
};

/// A server request that is being answered.
pub struct IncomingRequest {
    slot: Arc<RequestSlot>,
    request: ServerRequest,
    /// The edits of the item that the request refers to.
    changes: Vec<FileUpdateChange>,
    source: RequestSource,
}

/// The id of a server request and its answer, which outlive the connection of a client that reconnects.
#[derive(Debug)]
pub struct RequestSlot {
    /// Changes if the server asks again after a restart.
    pub id: Mutex<RequestId>,
    answer: OnceLock<Result<Value, ErrorObject>>,
}

impl RequestSlot {
    pub fn new(id: RequestId) -> Arc<Self> {
        Arc::new(Self { id: Mutex::new(id), answer: OnceLock::new() })
    }

    /// Returns the response, if there is an answer.
    pub fn message(&self) -> Option<Bytes> {
        let id = self.id.lock().clone();
        Some(match self.answer.get()? {
            Ok(result) => Frame::response(&id, result).bytes().clone(),
            Err(error) => error_frame(&id, error),
        })
    }
}

/// The turn that a request belongs to.
struct RequestSource {
    kind: RequestKind,
    thread: Option<String>,
    turn: Option<String>,
    /// The whole request, for the error of a turn that it ends.
    payload: Value,
}

/// What a turn needs when its request gets no answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Approval,
    Input,
}

impl IncomingRequest {
    pub fn new(
        slot: Arc<RequestSlot>,
        method: &str,
        params: Option<&RawValue>,
        request: ServerRequest,
        edits: &OpenEdits,
    ) -> Self {
        let kind = match request {
            ServerRequest::ToolUserInput(_) | ServerRequest::McpServerElicitation(_) => RequestKind::Input,
            _ => RequestKind::Approval,
        };
        let ids = MessageIds::of(params);
        let thread = ids.thread.map(Into::into);
        let turn = ids.turn.map(Into::into);
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let id = slot.id.lock().clone();
        let payload = json!({ "id": id, "method": method, "params": params });
        let changes = match &request {
            ServerRequest::FileChangeApproval(params) => edits.changes(&params.thread_id, &params.item_id),
            _ => Vec::new(),
        };
        Self { slot, request, changes, source: RequestSource { kind, thread, turn, payload } }
    }
}

impl RequestSource {
    fn ids(&self) -> MessageIds<'_> {
        MessageIds {
            thread: self.thread.as_deref().map(Into::into),
            turn: self.turn.as_deref().map(Into::into),
        }
    }
}

/// The handler, the tools and the way back to the server. Holds a weak sender, so that it does not keep the connection
/// open.
#[derive(Clone)]
pub struct RequestResponder {
    pub handler: Arc<dyn AnyHandler>,
    pub tools: Arc<ClientTools>,
    pub shared: Arc<ClientShared>,
    pub outgoing: mpsc::WeakSender<Bytes>,
}

impl RequestResponder {
    /// Queues an error response without waiting.
    pub fn refuse(&self, id: &RequestId, error: ErrorObject) {
        let sent = self.outgoing.upgrade().map(|outgoing| outgoing.try_send(error_frame(id, &error)));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(%id, "error response not sent: the queue is full or the connection closed");
        }
    }

    pub async fn answer(self, incoming: IncomingRequest) {
        let IncomingRequest { slot, request, changes, source } = incoming;
        let guard = OnPanic { responder: &self, slot: slot.clone() };
        let can_cancel = has_cancel_decision(&request);
        let waiting = is_for_person(&request).then(|| self.shared.routes.pause_turns(&source.ids()));
        let answer = match request {
            ServerRequest::DynamicToolCall(call) if self.tools.has(&call.tool) => {
                Ok(json!(self.tools.call(call).await))
            }
            request => self.handler.answer(request, changes).await,
        };
        drop(waiting);
        drop(guard);
        match answer {
            Err(NoAnswer::EndTurn) => self.end_turn(&slot, &source, can_cancel).await,
            answer => self.send(&slot, answer).await,
        }
    }

    async fn send(&self, slot: &RequestSlot, answer: HandlerAnswer<Value>) {
        let answer = match answer {
            Ok(result) => Ok(result),
            Err(NoAnswer::Error(error)) => {
                tracing::debug!("answered a server request with an error: {}", error.message);
                Err(error)
            }
            Err(NoAnswer::EndTurn) => Err(turn_ends()),
        };
        // Set once: this is the only task that answers the request.
        let _ = slot.answer.set(answer);
        let unsent = self.queue_answer(slot);
        if let (Some(message), Some(outgoing)) = (unsent, self.outgoing.upgrade()) {
            // Fails when the connection has ended; then the response is not needed.
            let _ = outgoing.send(message).await;
        }
    }

    /// Queues the answer. Returns it if the queue is full.
    fn queue_answer(&self, slot: &RequestSlot) -> Option<Bytes> {
        // Held until the message is queued, so that it is not queued for the next connection.
        let is_recovering = self.shared.resilience().map(|resilience| resilience.is_recovering.read());
        if is_recovering.is_some_and(|is_recovering| *is_recovering) {
            return None;
        }
        let outgoing = self.outgoing.upgrade()?;
        match outgoing.try_send(slot.message()?) {
            Err(TrySendError::Full(message)) => Some(message),
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        }
    }

    /// Ends the turn for its caller, then for the server.
    async fn end_turn(&self, slot: &RequestSlot, source: &RequestSource, can_cancel: bool) {
        self.shared.routes.end_turn(&source.ids(), || match source.kind {
            RequestKind::Approval => TurnOutcome::ApprovalRequired(source.payload.clone()),
            RequestKind::Input => TurnOutcome::InputRequired(source.payload.clone()),
        });
        // The decision `cancel` ends the turn on the server. Requests without such a decision need an interrupt.
        if can_cancel {
            let method = source.payload.get("method").and_then(Value::as_str);
            let is_legacy = method.is_some_and(|method| !method.contains('/'));
            let decision = if is_legacy { "abort" } else { "cancel" };
            return self.send(slot, Ok(json!({ "decision": decision }))).await;
        }
        self.send(slot, Err(NoAnswer::EndTurn)).await;
        if let Some(thread) = &source.thread
            && let Some(turn) = &source.turn
            && let Some(outgoing) = self.outgoing.upgrade()
        {
            let params =
                TurnInterruptParams { thread_id: thread.as_str().into(), turn_id: turn.as_str().into() };
            send_and_forget::<TurnInterrupt>(&self.shared, &outgoing, &params);
        }
    }
}

/// Returns whether a person may have to answer a request, which takes as long as it takes.
fn is_for_person(request: &ServerRequest) -> bool {
    has_cancel_decision(request)
        || matches!(
            request,
            ServerRequest::PermissionsApproval(_)
                | ServerRequest::ToolUserInput(_)
                | ServerRequest::McpServerElicitation(_)
        )
}

fn has_cancel_decision(request: &ServerRequest) -> bool {
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

fn turn_ends() -> ErrorObject {
    let message = "this client does not answer; the turn ends".to_owned();
    ErrorObject { code: codes::INVALID_REQUEST, message, data: None }
}

/// Responds with an error when the handler panics, so that the server does not wait.
struct OnPanic<'a> {
    responder: &'a RequestResponder,
    slot: Arc<RequestSlot>,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let message = "the client failed to answer".to_owned();
            let id = self.slot.id.lock().clone();
            self.responder.refuse(&id, ErrorObject { code: codes::INTERNAL_ERROR, message, data: None });
        }
    }
}
