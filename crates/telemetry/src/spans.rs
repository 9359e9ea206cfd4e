//! The spans of the server, one function for each kind.
//!
//! A span of a thread or turn has their ids as `thread` and `turn`. The turn is no child of the request's span in the log,
//! because that would keep the request open until the turn ends; in a trace it is.

use std::fmt::Display;

use tracing::{Span, field::Empty, info_span};

use crate::position::TracePosition;

/// The target of all spans. It enables them in the log, whatever the level of its lines is.
pub const SPAN_TARGET: &str = "codicil_span";

/// The target of spans that only the log shows.
const LOG_TARGET: &str = "codicil_span::log";

/// The name of spans of requests.
pub(crate) const REQUEST: &str = "request";

/// The name of spans of model requests.
pub(crate) const MODEL_REQUEST: &str = "model_request";

/// The field of a request's span that names the method.
pub(crate) const METHOD: &str = "method";

/// The field that says how the work of a span ended.
pub(crate) const OUTCOME: &str = "outcome";

/// The ids of a turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnIds<'a> {
    pub thread: &'a str,
    pub turn: &'a str,
}

/// How the work of a span ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    Completed,
    Failed,
    Cancelled,
}

impl SpanOutcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Returns the span of a client's request, below the place that the client has sent.
pub fn request_span(method: &'static str, id: &dyn Display, parent: &TracePosition) -> Span {
    let span = info_span!(
        target: SPAN_TARGET, parent: None, "request", method, %id, thread = Empty, outcome = Empty, code = Empty,
    );
    parent.adopt(&span);
    span
}

/// Notes the thread that the current request is about.
pub fn note_thread(thread: &str) {
    let span = Span::current();
    if span.metadata().is_some_and(|metadata| metadata.name() == REQUEST) {
        span.record("thread", thread);
    }
}

/// Returns the span of a thread's task. It is part of no trace: the thread lives longer than any of them.
pub fn thread_span(thread: &str) -> Span {
    info_span!(target: LOG_TARGET, parent: None, "thread", thread)
}

/// Returns the span of a turn, below the request that has started it.
pub fn turn_span(ids: TurnIds<'_>, parent: &TracePosition) -> Span {
    let TurnIds { thread, turn } = ids;
    let span = info_span!(
        target: SPAN_TARGET, parent: None, "turn", thread, turn, outcome = Empty,
    );
    parent.adopt(&span);
    span
}

/// Returns the span of a request to a model.
pub fn model_request_span(ids: TurnIds<'_>, provider: &str, model: &str) -> Span {
    let TurnIds { thread, turn } = ids;
    info_span!(
        target: SPAN_TARGET,
        "model_request",
        thread,
        turn,
        provider,
        model,
        input_tokens = Empty,
        output_tokens = Empty,
        outcome = Empty,
    )
}

/// Returns the span of a tool call. The name of the tool is noted once it is known to be one, because the model may have
/// written anything in its place.
pub fn tool_call_span(ids: TurnIds<'_>, call: &str) -> Span {
    let TurnIds { thread, turn } = ids;
    info_span!(target: SPAN_TARGET, "tool_call", thread, turn, tool = Empty, call, outcome = Empty)
}

/// Notes the tool of the current tool call.
pub fn note_tool(tool: &str) {
    Span::current().record("tool", tool);
}

/// Notes the error code with which a request was answered.
pub fn note_error_code(span: &Span, code: i64) {
    span.record("code", code);
    note_outcome(span, SpanOutcome::Failed);
}

/// Notes how the work of a span ended.
pub fn note_outcome(span: &Span, outcome: SpanOutcome) {
    span.record(OUTCOME, outcome.name());
}

/// Returns work for another thread that is logged as part of the current span.
pub fn in_current_span<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let span = Span::current();
    move || span.in_scope(work)
}

/// Notes the tokens of a model request.
pub fn note_tokens(span: &Span, input: i64, output: i64) {
    span.record("input_tokens", input);
    span.record("output_tokens", output);
}
