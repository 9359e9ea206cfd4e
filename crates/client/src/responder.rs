//! Answers one server request: runs the tool or handler and sends the response.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use codicil_protocol::{
    FileUpdateChange, Frame, ServerRequest, TurnInterrupt, TurnInterruptParams,
    rpc::{ErrorObject, RequestId, codes},
};
use parking_lot::Mutex;
use serde_json::{Value, json, value::RawValue};

use crate::{
    builder::ClientBuilder,
    collect::TurnOutcome,
    connection_state::ConnectionState,
    handler::{AnyHandler, HandlerAnswer, NoAnswer},
    ids::MessageIds,
    open_edits::OpenEdits,
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

/// The place of a server request and its answer, which outlive the connection of a client that reconnects.
#[derive(Debug)]
pub struct RequestSlot {
    /// Changes if the server asks again, or another one does.
    place: Mutex<RequestPlace>,
    answer: OnceLock<Result<Value, ErrorObject>>,
}

/// Who has asked a server request, and under which id.
#[derive(Clone, Debug)]
struct RequestPlace {
    connection: Arc<ConnectionState>,
    id: RequestId,
}

impl RequestSlot {
    pub fn new(connection: &Arc<ConnectionState>, id: RequestId) -> Arc<Self> {
        let place = RequestPlace { connection: connection.clone(), id };
        Arc::new(Self { place: Mutex::new(place), answer: OnceLock::new() })
    }

    /// Notes that the request was asked again.
    pub fn move_to(&self, connection: &Arc<ConnectionState>, id: RequestId) {
        *self.place.lock() = RequestPlace { connection: connection.clone(), id };
    }

    /// Returns the response, if there is an answer.
    pub fn message(&self) -> Option<Bytes> {
        self.answer_to(&self.place.lock().id)
    }

    fn answer_to(&self, id: &RequestId) -> Option<Bytes> {
        Some(match self.answer.get()? {
            Ok(result) => Frame::response(id, result).bytes().clone(),
            Err(error) => error_frame(id, error),
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
        let id = slot.place.lock().id.clone();
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

/// The handler, the tools and the state of the client.
#[derive(Clone)]
pub struct RequestResponder {
    handler: Arc<dyn AnyHandler>,
    tools: Arc<ClientTools>,
    shared: Arc<ClientShared>,
}

impl RequestResponder {
    pub fn new(options: &ClientBuilder, shared: Arc<ClientShared>) -> Self {
        Self { handler: options.handler.clone(), tools: options.tools.clone(), shared }
    }

    /// Queues an error response without waiting.
    pub fn refuse(&self, connection: &ConnectionState, id: &RequestId, error: &ErrorObject) {
        if connection.queue(error_frame(id, error)).is_some() {
            tracing::debug!(%id, "error response not sent: the queue is full");
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
        let place = slot.place.lock().clone();
        if let Some(message) = queue_answer(slot, &place) {
            // Fails when the connection has ended; then the response is not needed.
            let _ = place.connection.outgoing.send(message).await;
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
        {
            let params =
                TurnInterruptParams { thread_id: thread.as_str().into(), turn_id: turn.as_str().into() };
            self.shared.send_and_forget::<TurnInterrupt>(&params);
        }
    }
}

/// Queues the answer to a request. Returns it if the queue is full.
fn queue_answer(slot: &RequestSlot, place: &RequestPlace) -> Option<Bytes> {
    // Held until the message is queued, so that it is not queued for the next connection.
    let is_recovering = place.connection.is_recovering.read();
    if *is_recovering {
        return None;
    }
    place.connection.queue(slot.answer_to(&place.id)?)
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
            let RequestPlace { connection, id } = self.slot.place.lock().clone();
            let error = ErrorObject { code: codes::INTERNAL_ERROR, message, data: None };
            self.responder.refuse(&connection, &id, &error);
        }
    }
}
