//! From a method's name to its handler, and everything that is true of every request.
//!
//! In this order: decode the params, refuse values of another generation, check `initialize`, check the
//! experimental gate, run the handler, encode its answer. A request is answered exactly once, also when
//! its handler panics.

use std::{collections::HashMap, panic::AssertUnwindSafe};

use codicil_protocol::{
    Frame, Initialize, InspectFindings, Method, Stability, decode_params, rpc::RequestId, unknown_variant,
};
use futures_util::{FutureExt, future::BoxFuture};
use serde::Serialize;
use serde_json::value::RawValue;
use tracing::{Instrument, debug_span};

use crate::{
    clients::ConnectedClient,
    cx::{AfterReply, Cx},
    error::RpcError,
    limits::{MAX_ANSWER_BYTES, MAX_REASON_BYTES},
};

/// An answer in the making. Ready at once where there is nothing to wait for.
pub enum PendingResponse {
    Ready(QueuedResponse),
    Pending(BoxFuture<'static, QueuedResponse>),
}

/// An answer, and what is to be done once it is on its way.
pub struct QueuedResponse {
    frame: Frame,
    afterwards: Vec<AfterReply>,
}

impl QueuedResponse {
    pub fn send(self, client: &ConnectedClient) {
        client.outbox.push(&self.frame);
        self.afterwards.into_iter().for_each(|work| work());
    }
}

type RouteFn = Box<dyn Fn(Cx, RequestId, Option<&RawValue>) -> PendingResponse + Send + Sync>;

/// The table of routes.
pub struct Router {
    routes: HashMap<&'static str, RouteFn>,
}

impl Router {
    pub fn new() -> Self {
        Self { routes: HashMap::new() }
    }

    #[must_use]
    pub fn on<M: Method>(self, handler: impl RouteHandler<M, M::Response>) -> Self {
        self.on_encoded::<M, M::Response>(handler)
    }

    /// For a handler that has (part of) its response as JSON already.
    #[must_use]
    pub fn on_encoded<M: Method, T: Serialize + 'static>(mut self, handler: impl RouteHandler<M, T>) -> Self {
        let run = move |cx, id, params: Option<&RawValue>| serve::<M, T>(&handler, cx, id, params);
        self.routes.insert(M::NAME, Box::new(run));
        self
    }

    pub fn call(&self, cx: Cx, id: RequestId, method: &str, params: Option<&RawValue>) -> PendingResponse {
        match self.routes.get(method) {
            Some(run) => run(cx, id, params),
            None => {
                let mut known: Vec<_> = self.routes.keys().copied().collect();
                known.sort_unstable();
                refuse(&id, &RpcError::malformed(unknown_variant(brief(method), &known)))
            }
        }
    }

    #[cfg(test)]
    pub fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.routes.keys().copied()
    }
}

/// An async function from params to response, or to something that is written as the response.
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
    params: Option<&RawValue>,
) -> PendingResponse {
    let params = match admit::<M>(&cx, params) {
        Ok(params) => params,
        Err(error) => return refuse(&id, &error),
    };
    let span = debug_span!("request", method = M::NAME, %id);
    let (work, answered) = (handler.handle(cx.clone(), params), id.clone());
    // Writing the answer is part of it: a path that is not UTF-8 has no JSON form.
    let frame = AssertUnwindSafe(async move {
        let frame = match work.await {
            Ok(response) => Frame::response(&id, &response),
            Err(error) => {
                tracing::debug!(code = error.object().code, message = %error.object().message, "refused");
                Frame::error(&id, error.object())
            }
        };
        replace_too_long(&id, frame)
    })
    .catch_unwind();
    let mut work = async move {
        let frame = frame.await.unwrap_or_else(|_panic| {
            tracing::error!("the handler panicked; the panic itself is logged above");
            Frame::error(&answered, RpcError::internal("internal error").object())
        });
        QueuedResponse { frame, afterwards: cx.take_afterwards() }
    }
    .instrument(span)
    .boxed();
    // Polled once here, so that what a handler does before its first wait happens in order of arrival.
    match (&mut work).now_or_never() {
        Some(answer) => PendingResponse::Ready(answer),
        None => PendingResponse::Pending(work),
    }
}

fn admit<M: Method>(cx: &Cx, params: Option<&RawValue>) -> Result<M::Params, RpcError> {
    let params: M::Params = decode_params(params).map_err(|reason| RpcError::malformed(brief(&reason)))?;
    let findings = InspectFindings::of(&params);
    if let Some(reason) = findings.unknown_value() {
        return Err(RpcError::malformed(brief(reason)));
    }
    if M::NAME == Initialize::NAME {
        return Ok(params);
    }
    let session = cx.client.session().ok_or_else(RpcError::not_initialized)?;
    let gated = match M::STABILITY {
        Stability::Experimental => Some(M::NAME),
        Stability::Stable => findings.experimental_use(),
    };
    match gated {
        Some(descriptor) if !session.experimental => Err(RpcError::experimental(descriptor)),
        _ => Ok(params),
    }
}

/// The beginning of a reason. Reasons repeat what was sent, and an answer of that size could be more than
/// its reader has room for.
fn brief(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or(text)
}

/// Puts an error in the place of an answer that is too long: queued as it is, it would look as if the client
/// had stopped reading.
fn replace_too_long(id: &RequestId, frame: Frame) -> Frame {
    let bytes = frame.bytes().len();
    if bytes <= MAX_ANSWER_BYTES {
        return frame;
    }
    tracing::warn!(bytes, "replaced an answer that is too long by an error");
    Frame::error(id, RpcError::too_long("response", bytes, MAX_ANSWER_BYTES).object())
}

fn refuse(id: &RequestId, error: &RpcError) -> PendingResponse {
    PendingResponse::Ready(QueuedResponse { frame: Frame::error(id, error.object()), afterwards: Vec::new() })
}

#[cfg(test)]
mod tests;
