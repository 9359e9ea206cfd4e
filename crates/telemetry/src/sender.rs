//! Sends batches of spans to a collector: OTLP over HTTP, with a few retries and one warning for each time it fails.

use std::time::Duration;

use codicil_config::OtlpEncoding;
use codicil_http::{Backoff, http_client, root_cause};
use codicil_metrics::{METRICS, labels::SpanEnd};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{
        common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope,
    },
};
use opentelemetry_sdk::{Resource, trace::SpanData};
use prost::Message;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::settings::ExportSettings;

/// The maximum time to connect, and for one message with its answer.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The retries of a batch. The queue fills meanwhile.
const RETRIES: u32 = 4;
const PAUSES: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(8), jitter: 0.2 };

/// The minimum time between two warnings about the collector.
const WARNING_PAUSE: Duration = Duration::from_secs(600);

/// The connection to a collector.
pub(crate) struct SpanSender {
    endpoint: Url,
    headers: HeaderMap,
    encoding: OtlpEncoding,
    resource: ResourceAttributesWithSchema,
    warned_at: Option<Instant>,
    is_failing: bool,
}

/// Why the collector did not take a batch.
struct SendError {
    reason: String,
    /// Whether the same batch may be taken later.
    is_transient: bool,
}

impl SpanSender {
    pub fn new(settings: ExportSettings, resource: &Resource) -> Self {
        let ExportSettings { endpoint, mut headers, encoding, .. } = settings;
        let content_type = match encoding {
            OtlpEncoding::Binary => "application/x-protobuf",
            OtlpEncoding::Json => "application/json",
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { endpoint, headers, encoding, resource: resource.into(), warned_at: None, is_failing: false }
    }

    /// Sends a batch, and again if that may help. A batch that is not taken is lost. There are no retries after `stop`.
    pub async fn send(&mut self, spans: Vec<SpanData>, stop: &CancellationToken) {
        let count = spans.len() as u64;
        let Ok(body) = self.encode(spans) else { return METRICS.spans.add(SpanEnd::Failed, count) };
        let mut retry = 0;
        let end = loop {
            let Err(error) = self.send_once(body.clone()).await else { break SpanEnd::Exported };
            self.note_failure(&error);
            retry += 1;
            if !error.is_transient || retry > RETRIES || stop.is_cancelled() {
                break SpanEnd::Failed;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(PAUSES.delay(retry)) => {}
            }
        };
        METRICS.spans.add(end, count);
        if end == SpanEnd::Exported && std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector of traces takes spans again");
        }
    }

    fn encode(&self, spans: Vec<SpanData>) -> serde_json::Result<Vec<u8>> {
        let message = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(spans, &self.resource),
        };
        match self.encoding {
            OtlpEncoding::Binary => Ok(message.encode_to_vec()),
            OtlpEncoding::Json => serde_json::to_vec(&message),
        }
    }

    async fn send_once(&self, body: Vec<u8>) -> Result<(), SendError> {
        let transient = |reason: String| SendError { reason, is_transient: true };
        let exchange = async {
            let client = http_client(&self.endpoint, CONNECT_TIME).await;
            let client =
                client.map_err(|error| SendError { reason: error.to_string(), is_transient: false })?;
            let request = client.post(self.endpoint.clone()).headers(self.headers.clone()).body(body);
            let response =
                request.send().await.map_err(|error| transient(root_cause(&error.without_url())))?;
            match response.status() {
                status if status.is_success() => Ok(()),
                status => Err(SendError {
                    reason: format!("HTTP status {status}"),
                    is_transient: is_transient(status),
                }),
            }
        };
        let late = || transient(format!("no answer within {} s", REQUEST_TIME.as_secs()));
        timeout(REQUEST_TIME, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Warns at most once in a while. The address is shown without a path and credentials.
    fn note_failure(&mut self, error: &SendError) {
        self.is_failing = true;
        let host = self.endpoint.host_str().unwrap_or_default();
        let reason = &error.reason;
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_PAUSE) {
            self.warned_at = Some(Instant::now());
            tracing::warn!("the collector of traces at {host} does not take spans: {reason}");
        } else {
            tracing::debug!("the collector of traces at {host} does not take spans: {reason}");
        }
    }
}

/// Returns whether OTLP says that a message may be sent again after this status.
fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}
