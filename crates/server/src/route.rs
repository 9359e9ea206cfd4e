//! From a method's name to its handler, and everything that is true of every request.
//!
//! In this order: decode the params, refuse values of another generation, check `initialize`, check the
//! experimental gate, run the handler, encode its answer. A request is answered exactly once, also when
//! its handler panics.

use std::{collections::HashMap, panic::AssertUnwindSafe};

use codicil_protocol::{
    Findings, Frame, Initialize, Inspect, Method, Stability, decode_params, rpc::RequestId, unknown_variant,
};
use futures_util::{FutureExt, future::BoxFuture};
use serde_json::value::RawValue;
use tracing::{Instrument, debug_span};

use crate::{cx::Cx, error::RpcError};

/// An answer in the making. Ready at once where there is nothing to wait for.
pub enum Reply {
    Ready(Frame),
    Pending(BoxFuture<'static, Frame>),
}

type Run = Box<dyn Fn(Cx, RequestId, Option<&RawValue>) -> Reply + Send + Sync>;

/// The table of routes.
pub struct Router {
    routes: HashMap<&'static str, Run>,
}

impl Router {
    pub fn new() -> Self {
        Self { routes: HashMap::new() }
    }

    #[must_use]
    pub fn on<M: Method>(mut self, handler: impl Handler<M>) -> Self {
        self.routes.insert(M::NAME, Box::new(move |cx, id, params| serve::<M>(&handler, cx, id, params)));
        self
    }

    pub fn call(&self, cx: Cx, id: RequestId, method: &str, params: Option<&RawValue>) -> Reply {
        match self.routes.get(method) {
            Some(run) => run(cx, id, params),
            None => {
                let mut known: Vec<_> = self.routes.keys().copied().collect();
                known.sort_unstable();
                refuse(&id, &RpcError::malformed(unknown_variant(method, &known)))
            }
        }
    }

    #[cfg(test)]
    pub fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.routes.keys().copied()
    }
}

/// An async function from params to response.
pub trait Handler<M: Method>: Send + Sync + 'static {
    fn handle(&self, cx: Cx, params: M::Params) -> BoxFuture<'static, Result<M::Response, RpcError>>;
}

impl<M, F, R> Handler<M> for F
where
    M: Method,
    F: Fn(Cx, M::Params) -> R + Send + Sync + 'static,
    R: Future<Output = Result<M::Response, RpcError>> + Send + 'static,
{
    fn handle(&self, cx: Cx, params: M::Params) -> BoxFuture<'static, Result<M::Response, RpcError>> {
        self(cx, params).boxed()
    }
}

fn serve<M: Method>(handler: &impl Handler<M>, cx: Cx, id: RequestId, params: Option<&RawValue>) -> Reply {
    let params = match admit::<M>(&cx, params) {
        Ok(params) => params,
        Err(error) => return refuse(&id, &error),
    };
    let span = debug_span!("request", method = M::NAME, %id);
    let work = AssertUnwindSafe(handler.handle(cx, params)).catch_unwind();
    let mut work = async move {
        match work.await {
            Ok(Ok(response)) => Frame::response(&id, &response),
            Ok(Err(error)) => {
                tracing::debug!(code = error.object().code, message = %error.object().message, "refused");
                Frame::error(&id, error.object())
            }
            Err(_panic) => {
                tracing::error!("the handler panicked; the panic itself is logged above");
                Frame::error(&id, RpcError::internal("internal error").object())
            }
        }
    }
    .instrument(span)
    .boxed();
    // Polled once here, so that what a handler does before its first wait happens in order of arrival.
    match (&mut work).now_or_never() {
        Some(frame) => Reply::Ready(frame),
        None => Reply::Pending(work),
    }
}

fn admit<M: Method>(cx: &Cx, params: Option<&RawValue>) -> Result<M::Params, RpcError> {
    let params: M::Params = decode_params(params).map_err(RpcError::malformed)?;
    let findings = inspect(&params);
    if let Some(reason) = findings.unknown_value() {
        return Err(RpcError::malformed(reason));
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

fn inspect(params: &impl Inspect) -> Findings {
    Findings::of(params)
}

fn refuse(id: &RequestId, error: &RpcError) -> Reply {
    Reply::Ready(Frame::error(id, error.object()))
}
