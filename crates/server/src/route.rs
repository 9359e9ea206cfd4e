//! Dispatch from a method's name to its handler, and the steps that are common to all requests.
//!
//! In this order: decode the params, reject values that the protocol does not know, check `initialize`, check the
//! experimental gate, run the handler, encode its response. Every request gets exactly one response, even if its
//! handler panics.

use std::{any::type_name_of_val, collections::HashMap, panic::AssertUnwindSafe};

use codicil_metrics::{
    METRICS,
    labels::{OverloadReason, RequestEnd},
};
use codicil_protocol::{
    CLIENT_REQUESTS, Frame, Initialize, InspectFindings, Method, MethodGenerations, NoParams, OLDER_REQUESTS,
    ProtocolGeneration, Stability, decode_params, rpc::RequestId,
};
use codicil_telemetry::spans::{SpanOutcome, note_error_code, note_outcome, request_span};
use futures_util::{FutureExt, future::BoxFuture};
use serde::Serialize;
use serde_json::value::RawValue;
use tracing::{Instrument, Span};

use crate::{
    clients::ConnectedClient,
    cx::{AfterReply, Cx},
    error::RpcError,
    limits::{MAX_REASON_BYTES, MAX_RESPONSE_BYTES},
    redirect::RedirectedRequest,
};

/// A response that is ready, or the future that produces it.
pub enum PendingResponse {
    Ready(QueuedResponse),
    Pending(BoxFuture<'static, QueuedResponse>),
}

/// A response and the work that follows it.
pub struct QueuedResponse {
    frame: Frame,
    afterwards: Vec<AfterReply>,
}

impl QueuedResponse {
    fn error(id: &RequestId, error: &RpcError) -> Self {
        Self { frame: Frame::error(id, error.object()), afterwards: Vec::new() }
    }

    pub fn send(self, client: &ConnectedClient) {
        client.outbox.push(&self.frame);
        self.afterwards.into_iter().for_each(|work| work());
    }
}

type RouteFn = Box<dyn Fn(Cx, RequestId, Option<&RawValue>) -> PendingResponse + Send + Sync>;

/// The table of routes.
pub struct Router {
    routes: HashMap<&'static str, Route>,
}

struct Route {
    /// The path of the handler function.
    handler: &'static str,
    run: RouteFn,
}

impl Router {
    pub fn new() -> Self {
        Self { routes: HashMap::new() }
    }

    #[must_use]
    pub fn on<M: Method>(self, handler: impl RouteHandler<M, M::Response>) -> Self {
        self.on_encoded::<M, M::Response>(handler)
    }

    /// Adds a handler that returns (part of) its response as JSON.
    #[must_use]
    pub fn on_encoded<M: Method, T: Serialize + 'static>(mut self, handler: impl RouteHandler<M, T>) -> Self {
        let path = type_name_of_val(&handler);
        let is_later = M::GENERATIONS == MethodGenerations::Since166;
        let run = move |cx: Cx, id, params: Option<&RawValue>| {
            if is_later {
                cx.client.note_later_use();
            }
            serve::<M, T>(&handler, cx, id, params)
        };
        self.routes.insert(M::NAME, Route { handler: path, run: Box::new(run) });
        self
    }

    pub fn call(
        &self,
        mut cx: Cx,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> PendingResponse {
        let Some(route) = self.routes.get(method) else {
            if CLIENT_REQUESTS.iter().any(|known| known.name == method) {
                cx.client.note_later_use();
            }
            let error = RpcError::from(UnroutedMethod::new(method));
            return PendingResponse::Ready(QueuedResponse::error(&id, &error));
        };
        cx.set_request_id(id.clone());
        tracing::trace!(method, handler = route.handler, "request");
        (route.run)(cx, id, params)
    }

    /// Returns the methods with the paths of their handlers.
    #[cfg(test)]
    pub fn handlers(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.routes.iter().map(|(method, route)| (*method, route.handler))
    }
}

/// A method without a route. Clients recognise the beginning of the message: it is that of the reference.
#[derive(Debug, thiserror::Error)]
pub enum UnroutedMethod {
    #[error("unknown variant `{0}`: there is no such method")]
    Unknown(String),
    #[error("unknown variant `{0}`: this server does not serve that method")]
    NotServed(&'static str),
}

impl UnroutedMethod {
    fn new(method: &str) -> Self {
        let published = CLIENT_REQUESTS.iter().map(|known| known.name);
        match published.chain(OLDER_REQUESTS.iter().copied()).find(|known| *known == method) {
            Some(known) => Self::NotServed(known),
            None => Self::Unknown(shorten(method).to_owned()),
        }
    }
}

/// An async function from params to a response, or to a value that is encoded like the response.
pub trait RouteHandler<M: Method, T>: Send + Sync + 'static {
    fn handle(&self, cx: Cx, params: M::Params) -> BoxFuture<'static, Result<T, RpcError>>;
}

impl<M, F, R, T> RouteHandler<M, T> for F
where
    M: Method,
    F: Fn(Cx, M::Params) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, RpcError>> + Send + 'static,
{
    fn handle(&self, cx: Cx, params: M::Params) -> BoxFuture<'static, Result<T, RpcError>> {
        self(cx, params).boxed()
    }
}

fn serve<M: Method, T: Serialize + 'static>(
    handler: &impl RouteHandler<M, T>,
    cx: Cx,
    id: RequestId,
    raw: Option<&RawValue>,
) -> PendingResponse {
    let params = match admit::<M>(&cx, raw) {
        Ok(params) => params,
        Err(error) => {
            count_error(&error);
            return PendingResponse::Ready(QueuedResponse::error(&id, &error));
        }
    };
    let redirected = RedirectedRequest::new(&cx, raw);
    let span = request_span(M::NAME, &id, cx.trace());
    let counted = cx.count_request();
    let handled = span.in_scope(|| handler.handle(cx.clone(), params));
    let respond = async move {
        let _counted = counted;
        respond(cx, id, handled, redirected).await
    };
    let mut work = respond.instrument(span).boxed();
    // Polled once here, so that what a handler does before its first `.await` happens in order of arrival.
    match (&mut work).now_or_never() {
        Some(response) => PendingResponse::Ready(response),
        None => PendingResponse::Pending(work),
    }
}

/// Encodes the result of a handler. A panic, in the handler or in the encoder, becomes an internal error.
async fn respond<T: Serialize>(
    cx: Cx,
    id: RequestId,
    handled: BoxFuture<'static, Result<T, RpcError>>,
    redirected: Option<RedirectedRequest>,
) -> QueuedResponse {
    // Encoding can panic too: a path that is not UTF-8 has no JSON form.
    let encoded = AssertUnwindSafe(async {
        // Encoded before anything else is awaited: a response need not be `Send`.
        let handled = handled.await.map(|response| encode(&cx, &id, &response));
        let frame = match handled {
            Ok(frame) => frame,
            Err(error) => {
                let error = match redirected {
                    Some(request) => request.replace(&cx, error).await,
                    None => error,
                };
                count_error(&error);
                note_error_code(&Span::current(), error.object().code);
                tracing::debug!(code = error.object().code, message = %error.object().message, "request failed");
                Frame::error(&id, error.object())
            }
        };
        replace_too_long(&id, frame)
    });
    let frame = encoded.catch_unwind().await.unwrap_or_else(|_panic| {
        tracing::error!("the handler panicked; the panic itself is logged above");
        Frame::error(&id, RpcError::panicked().object())
    });
    QueuedResponse { frame, afterwards: cx.take_after_response() }
}

fn encode<T: Serialize>(cx: &Cx, id: &RequestId, response: &T) -> Frame {
    METRICS.requests.inc(RequestEnd::Answered);
    note_outcome(&Span::current(), SpanOutcome::Completed);
    if cx.is_replayed() { Frame::replayed_response(id, response) } else { Frame::response(id, response) }
}

fn count_error(error: &RpcError) {
    METRICS.requests.inc(RequestEnd::Failed);
    if error.is_overload() {
        METRICS.overload_refusals.inc(OverloadReason::Busy);
    }
}

fn admit<M: Method>(cx: &Cx, params: Option<&RawValue>) -> Result<M::Params, RpcError> {
    let malformed = |reason: String| RpcError::malformed(shorten(&reason));
    if M::HAS_OPTIONAL_PARAMS && cx.generation() == ProtocolGeneration::V118 {
        decode_params::<NoParams>(params).map_err(malformed)?;
    }
    let params: M::Params = decode_params(params).map_err(malformed)?;
    let findings = InspectFindings::of(&params);
    if let Some(reason) = findings.unknown_value_in(cx.generation()) {
        return Err(RpcError::malformed(shorten(reason)));
    }
    if M::NAME == Initialize::NAME {
        return Ok(params);
    }
    let session = cx.client.session().ok_or_else(RpcError::not_initialized)?;
    if findings.is_later() {
        cx.client.note_later_use();
    }
    let outdated = findings.outdated_value().filter(|_| cx.generation() == ProtocolGeneration::V166);
    if let Some(reason) = outdated {
        return Err(RpcError::malformed(reason));
    }
    let gated = match M::STABILITY {
        Stability::Experimental => Some(M::NAME),
        Stability::Extension if session.codicil.is_none() => return Err(RpcError::extension(M::NAME)),
        Stability::Stable | Stability::Extension => findings.experimental_use_in(cx.generation()),
    };
    match gated {
        Some(descriptor) if !session.experimental => Err(RpcError::experimental(descriptor)),
        _ => Ok(params),
    }
}

/// Returns the beginning of a reason. Reasons quote the request, which may be longer than the client can read.
fn shorten(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or(text)
}

/// Replaces a response that is too long by an error. Queued as it is, it would exceed the outbox, and the client
/// would be disconnected for not reading.
fn replace_too_long(id: &RequestId, frame: Frame) -> Frame {
    let bytes = frame.bytes().len();
    if bytes <= MAX_RESPONSE_BYTES {
        return frame;
    }
    tracing::warn!(bytes, "replaced a response that is too long by an error");
    Frame::error(id, RpcError::too_long("response", bytes, MAX_RESPONSE_BYTES).object())
}

#[cfg(test)]
mod tests;
