//! Measures a model request for operators: metrics, and its span.

use codicil_metrics::{METRICS, labels::ModelRequestEnd};
use codicil_model::ModelEvent;
use codicil_telemetry::spans::{SpanOutcome, note_outcome, note_tokens};
use tokio::time::Instant;
use tracing::Span;

/// A model request that has been sent. One that is dropped without an end was cancelled.
pub(super) struct RequestTimer {
    span: Span,
    sent: Instant,
    has_begun: bool,
    end: ModelRequestEnd,
}

impl RequestTimer {
    pub fn start(span: Span) -> Self {
        Self { span, sent: Instant::now(), has_begun: false, end: ModelRequestEnd::Cancelled }
    }

    /// Notes events of the response. What the headers say does not count as its beginning.
    pub fn note(&mut self, events: &[ModelEvent]) {
        let is_head =
            |event: &ModelEvent| matches!(event, ModelEvent::RateLimits(_) | ModelEvent::Rerouted(_));
        if !self.has_begun && !events.iter().all(is_head) {
            self.has_begun = true;
            METRICS.first_token_seconds.observe(self.sent.elapsed());
        }
        // The usage is in the last event.
        if let Some(ModelEvent::Used(usage) | ModelEvent::Completed { usage: Some(usage), .. }) =
            events.last()
        {
            note_tokens(&self.span, usage.input_tokens, usage.output_tokens);
        }
    }

    pub fn completed(&mut self) {
        self.end = ModelRequestEnd::Completed;
    }

    pub fn failed(&mut self) {
        self.end = ModelRequestEnd::Failed;
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        METRICS.model_requests.inc(self.end);
        let outcome = match self.end {
            ModelRequestEnd::Completed => SpanOutcome::Completed,
            ModelRequestEnd::Failed => SpanOutcome::Failed,
            ModelRequestEnd::Cancelled => SpanOutcome::Cancelled,
        };
        note_outcome(&self.span, outcome);
    }
}
