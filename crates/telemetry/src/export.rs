//! The export of spans: a layer of the subscriber that puts ended spans into a bounded queue, and a task that sends them.
//!
//! A span for which there is no room is dropped and counted. Nothing waits for the collector, except the end of the process,
//! for a bounded time.

use std::time::Duration;

use codicil_metrics::{METRICS, labels::SpanEnd};
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanKind, Status, TracerProvider},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::{
    position::set_exporting,
    sender::SpanSender,
    settings::ExportSettings,
    spans::{METHOD, MODEL_REQUEST, OUTCOME, REQUEST, SPAN_TARGET, SpanOutcome},
};

/// The maximum number of ended spans that wait to be sent.
const QUEUED_SPANS: usize = 4096;

/// The maximum number of spans in one message.
const BATCH_SPANS: usize = 512;

/// How long the first span of a batch waits for others.
const BATCH_TIME: Duration = Duration::from_millis(500);

/// The maximum time for which the process waits for the collector before it ends.
const END_TIME: Duration = Duration::from_secs(2);

/// The name of the service if `OTEL_SERVICE_NAME` does not set one.
const SERVICE_NAME: &str = "codicil";

/// An export that has not started. Spans that end before it starts wait in its queue.
pub struct TraceExport {
    provider: SdkTracerProvider,
    spans: mpsc::Receiver<SpanData>,
    sender: SpanSender,
}

impl TraceExport {
    pub fn new(settings: ExportSettings) -> Self {
        let (queue, spans) = mpsc::channel(QUEUED_SPANS);
        let resource = resource(settings.environment.as_deref());
        let attributes = (settings.span_attributes.iter())
            .map(|(name, value)| KeyValue::new(name.clone(), value.clone()))
            .collect();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_span_processor(SpanQueue { queue, attributes })
            .build();
        set_exporting();
        Self { provider, spans, sender: SpanSender::new(settings, &resource) }
    }

    /// Returns the layer of the subscriber that sees the spans. It sees no events: their texts stay in the log.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE_NAME))
            .with_context_activation(false)
            .with_tracked_inactivity(false)
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == SPAN_TARGET))
    }

    /// Starts the task that sends the spans.
    pub fn start(self, runtime: &Handle) -> RunningExport {
        let stop = CancellationToken::new();
        let task = SpanTask { spans: self.spans, sender: self.sender, stop: stop.clone() };
        let task = runtime.spawn(task.run());
        RunningExport { provider: self.provider, stop, task }
    }
}

/// An export that sends spans until it is finished.
pub struct RunningExport {
    /// Kept because the layer makes no spans without it.
    provider: SdkTracerProvider,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningExport {
    /// Sends what has ended so far, within a bounded time.
    pub async fn finish(mut self) {
        self.stop.cancel();
        if timeout(END_TIME, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::debug!("the collector of traces did not take the last spans in time");
        }
        drop(self.provider);
    }
}

/// Puts ended spans into the queue.
#[derive(Debug)]
struct SpanQueue {
    queue: mpsc::Sender<SpanData>,
    /// Attributes of every span.
    attributes: Vec<KeyValue>,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        span.attributes.extend(self.attributes.iter().cloned());
        if self.queue.try_send(shaped(span)).is_err() {
            METRICS.spans.inc(SpanEnd::Dropped);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Returns a span as collectors expect it: a request is named after its method, requests have a kind, failures a status. The log
/// shows the same spans without these additions.
fn shaped(mut span: SpanData) -> SpanData {
    let value_of = |name: &str| {
        let attribute = span.attributes.iter().find(|attribute| attribute.key.as_str() == name)?;
        Some(attribute.value.as_str().into_owned())
    };
    if value_of(OUTCOME).as_deref() == Some(SpanOutcome::Failed.name()) {
        span.status = Status::error("");
    }
    span.span_kind = match &*span.name {
        REQUEST => SpanKind::Server,
        MODEL_REQUEST => SpanKind::Client,
        _ => SpanKind::Internal,
    };
    if span.name == REQUEST
        && let Some(method) = value_of(METHOD)
    {
        span.name = method.into();
    }
    span
}

/// Returns what all spans have in common. The variables `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` are honoured.
fn resource(environment: Option<&str>) -> Resource {
    let found = Resource::builder().build();
    let name = found.get(&"service.name".into()).map(|name| name.as_str().into_owned());
    let is_named = name.is_some_and(|name| !name.starts_with("unknown_service"));
    let mut builder = Resource::builder().with_attributes(
        [("service.version", Some(env!("CARGO_PKG_VERSION"))), ("deployment.environment.name", environment)]
            .into_iter()
            .filter_map(|(name, value)| Some(KeyValue::new(name, value?.to_owned()))),
    );
    if !is_named {
        builder = builder.with_service_name(SERVICE_NAME);
    }
    builder.build()
}

/// Sends the spans of the queue in batches.
struct SpanTask {
    spans: mpsc::Receiver<SpanData>,
    sender: SpanSender,
    stop: CancellationToken,
}

impl SpanTask {
    async fn run(mut self) {
        loop {
            let batch = self.next_batch().await;
            if batch.is_empty() {
                return;
            }
            self.sender.send(batch, &self.stop).await;
        }
    }

    /// Collects a batch. An empty one is the end.
    async fn next_batch(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::new();
        let mut deadline = None;
        while batch.len() < BATCH_SPANS {
            let room = BATCH_SPANS - batch.len();
            if self.stop.is_cancelled() {
                self.spans.close();
            }
            tokio::select! {
                biased;
                received = self.spans.recv_many(&mut batch, room) => if received == 0 { break },
                () = self.stop.cancelled(), if !self.spans.is_closed() => continue,
                () = wait_until(deadline) => break,
            }
            deadline.get_or_insert_with(|| Instant::now() + BATCH_TIME);
        }
        batch
    }
}

/// Waits until a time; for ever if there is none.
async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use opentelemetry::trace::{SpanBuilder, Tracer};

    use super::*;

    fn export() -> TraceExport {
        TraceExport::new(ExportSettings {
            endpoint: "http://127.0.0.1:9/v1/traces".parse().unwrap(),
            headers: http::HeaderMap::new(),
            encoding: codicil_config::OtlpEncoding::Binary,
            environment: Some("test".to_owned()),
            span_attributes: BTreeMap::from([("team".to_owned(), "search".to_owned())]),
        })
    }

    fn end_span(export: &TraceExport, name: &'static str, attributes: Vec<KeyValue>) {
        let builder = SpanBuilder::from_name(name).with_attributes(attributes);
        drop(export.provider.tracer("test").build_with_context(builder, &Context::new()));
    }

    #[test]
    fn a_full_queue_drops_and_counts_spans() {
        let mut export = export();
        let before = METRICS.spans.get(SpanEnd::Dropped);
        for _ in 0..QUEUED_SPANS + 3 {
            end_span(&export, "turn", Vec::new());
        }
        assert_eq!(METRICS.spans.get(SpanEnd::Dropped) - before, 3);
        assert_eq!(export.spans.len(), QUEUED_SPANS);
        assert!(export.spans.try_recv().is_ok());
    }

    #[test]
    fn spans_are_shaped_for_collectors() {
        let mut export = export();
        let failed = vec![KeyValue::new("method", "turn/start"), KeyValue::new("outcome", "failed")];
        end_span(&export, "request", failed);
        end_span(&export, "model_request", vec![KeyValue::new("outcome", "completed")]);
        let request = export.spans.try_recv().unwrap();
        assert_eq!((&*request.name, &request.span_kind), ("turn/start", &SpanKind::Server));
        assert_eq!(request.status, Status::error(""));
        assert!(request.attributes.contains(&KeyValue::new("team", "search")));
        let model = export.spans.try_recv().unwrap();
        assert_eq!((&*model.name, &model.span_kind), ("model_request", &SpanKind::Client));
        assert_eq!(model.status, Status::Unset);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_waits_for_others_and_the_end_does_not() {
        let export = export();
        let stop = CancellationToken::new();
        end_span(&export, "turn", Vec::new());
        let mut task = SpanTask { spans: export.spans, sender: export.sender, stop: stop.clone() };
        let started = Instant::now();
        assert_eq!(task.next_batch().await.len(), 1);
        assert_eq!(started.elapsed(), BATCH_TIME);
        stop.cancel();
        assert!(task.next_batch().await.is_empty());
        assert_eq!(started.elapsed(), BATCH_TIME);
    }
}
