//! A place in a trace, and its W3C form: read from the requests of clients, sent to providers of models and MCP servers.

use std::sync::atomic::{AtomicBool, Ordering};

use codicil_protocol::rpc::W3cTraceContext;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TraceContextExt,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde_json::value::RawValue;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Whether spans are exported. Set once, when the process starts.
static IS_EXPORTING: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_exporting() {
    IS_EXPORTING.store(true, Ordering::Relaxed);
}

pub(crate) fn is_exporting() -> bool {
    IS_EXPORTING.load(Ordering::Relaxed)
}

/// The place of a span in a trace. Empty if nothing is exported.
#[derive(Clone, Debug, Default)]
pub struct TracePosition(Option<Context>);

impl TracePosition {
    /// Returns the place of the current span.
    pub fn current() -> Self {
        if is_exporting() { Self::valid(Span::current().context()) } else { Self::default() }
    }

    /// Returns the place that a client has sent with its request, in the member `trace`. One that is not valid counts as none, as
    /// the W3C recommendation says.
    pub fn of_request(trace: Option<&RawValue>) -> Self {
        let sent = trace.filter(|_| is_exporting());
        let sent = sent.and_then(|sent| serde_json::from_str::<W3cTraceContext>(sent.get()).ok());
        let sent = sent.filter(|sent| sent.traceparent.as_deref().is_some_and(has_whole_ids));
        let read = |sent: W3cTraceContext| {
            TraceContextPropagator::new().extract_with_context(&Context::new(), &ClientFields(&sent))
        };
        sent.map(read).map(Self::valid).unwrap_or_default()
    }

    /// Returns the headers `traceparent` and `tracestate`, for a request that is part of the trace.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(context) = &self.0 {
            TraceContextPropagator::new().inject_context(context, &mut HeaderFields(&mut headers));
        }
        headers
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Makes a span that has not been entered a part of the trace, below this place.
    pub(crate) fn adopt(&self, span: &Span) {
        if let Some(context) = &self.0 {
            // A span that the export does not see has no place in a trace.
            let _ = span.set_parent(context.clone());
        }
    }

    fn valid(context: Context) -> Self {
        let is_valid = context.span().span_context().is_valid();
        Self(is_valid.then_some(context))
    }
}

/// Returns whether the ids of a `traceparent` have their lengths, which the propagator does not check.
fn has_whole_ids(traceparent: &str) -> bool {
    let lengths: Vec<_> = traceparent.split('-').take(4).map(str::len).collect();
    lengths == [2, 32, 16, 2]
}

/// The members of a request's `trace` as a propagator reads them.
struct ClientFields<'a>(&'a W3cTraceContext);

impl Extractor for ClientFields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.0.traceparent.as_deref(),
            "tracestate" => self.0.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Headers as a propagator writes them. An empty `tracestate` is left out.
struct HeaderFields<'a>(&'a mut HeaderMap);

impl Injector for HeaderFields<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value))
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers_for(trace: serde_json::Value) -> HeaderMap {
        set_exporting();
        let sent = serde_json::value::to_raw_value(&trace).unwrap();
        TracePosition::of_request(Some(&sent)).headers()
    }

    #[test]
    fn the_context_of_a_client_is_passed_on() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let headers = headers_for(json!({ "traceparent": parent, "tracestate": "vendor=a" }));
        assert_eq!(headers["traceparent"], parent);
        assert_eq!(headers["tracestate"], "vendor=a");
        assert_eq!(headers_for(json!({ "traceparent": parent, "tracestate": null })).len(), 1);
    }

    #[test]
    fn what_is_not_a_trace_context_is_ignored() {
        for sent in ["", "x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf9-00f0-01"] {
            assert!(
                headers_for(json!({ "traceparent": sent, "tracestate": "vendor=a" })).is_empty(),
                "{sent}"
            );
        }
        for sent in [json!(null), json!("x"), json!([1]), json!({ "traceparent": 1 })] {
            assert!(headers_for(sent.clone()).is_empty(), "{sent}");
        }
    }
}
