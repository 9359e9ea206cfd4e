//! The stream of events, and what all HTTP dialects share of it: reading, batching, deadlines.
//!
//! A provider that answers with one JSON document instead of events is read as well. All bytes that can be read
//! without waiting become one batch. The caller polls the stream; there is no task
//! between the socket and the turn except the connection's own.

use std::{
    borrow::Cow,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use codicil_http::{EventTooLong, SseParser};
use http_body::Body as _;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    ModelError, ModelEvent,
    response_limits::{MAX_EVENT_BYTES, ResponseTally},
    wire_json::{read_event, repaired},
};

/// A batch ends after about this many bytes, so that a fast stream cannot starve the other work of its reader.
const MAX_BATCH_BYTES: usize = 256 * 1024;

/// Time that a stream has to end after its response is complete.
pub(crate) const END_TIME: Duration = Duration::from_secs(2);

/// The response to a request, as batches of events.
pub struct EventStream {
    /// `None` after the end.
    source: Option<Box<dyn EventSource>>,
    tally: ResponseTally,
}

/// Whether more events follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFlow {
    More,
    /// [`ModelEvent::Completed`] has been emitted.
    Done,
}

impl EventStream {
    pub(crate) fn new(source: impl EventSource + 'static) -> Self {
        Self { source: Some(Box::new(source)), tally: ResponseTally::default() }
    }

    /// Waits for the next events and adds them to `events`.
    ///
    /// On failure `events` may hold events that came before the failure; handle them first. The method is
    /// cancel safe.
    pub async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<StreamFlow, ModelError> {
        poll_fn(|cx| self.poll_next(cx, events)).await
    }

    /// Polls for the next events; see [`next`](Self::next).
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(StreamFlow::Done)) };
        let first = events.len();
        let result = ready!(source.poll_batch(cx, events));
        // Exceeding a limit takes precedence over the result of the batch.
        let result = self.tally.count(events, first).and(result);
        if !matches!(result, Ok(StreamFlow::More)) {
            self.source = None;
        }
        Poll::Ready(result)
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("is_open", &self.source.is_some()).finish()
    }
}

/// The source of a stream's events.
pub(crate) trait EventSource: Send {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>>;
}

/// Decodes a dialect's server-sent events.
pub(crate) trait EventDecoder: Send {
    /// Decodes one event. An event that cannot be read changes nothing and is [`ModelError::Unreadable`].
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// Decodes a whole response, as the API sends it to requests without `stream`.
    fn document(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// Called when the connection ended, or when a finished response did not end in time.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// Returns whether [`ModelEvent::Completed`] has been emitted.
    fn is_complete(&self) -> bool;

    /// Returns how long a silent stream may still last; `None` unless the provider has said that its response is
    /// finished.
    fn end_time(&self) -> Option<Duration> {
        None
    }
}

/// Returns the name of an event. Some gateways drop the `event:` lines; the data's `type` then says the same.
pub(crate) fn event_name<'a>(name: &'a [u8], data: &'a [u8]) -> Result<Cow<'a, [u8]>, ModelError> {
    #[derive(Deserialize)]
    struct TypedEvent<'a> {
        #[serde(rename = "type", borrow, default)]
        name: Cow<'a, str>,
    }

    if !name.is_empty() || data == b"[DONE]" {
        return Ok(Cow::Borrowed(name));
    }
    Ok(match read_event::<TypedEvent<'_>>(data)?.name {
        Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
        Cow::Owned(name) => Cow::Owned(name.into_bytes()),
    })
}

/// A stream over HTTP: the request is sent first, then its response is read.
pub(crate) enum HttpSource {
    Opening(Pin<Box<dyn Future<Output = Result<LiveResponse, ModelError>> + Send>>),
    Reading(LiveResponse),
}

impl EventSource for HttpSource {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>> {
        loop {
            match self {
                Self::Reading(live) => return live.poll_batch(cx, out),
                Self::Opening(request) => {
                    let live = ready!(request.as_mut().poll(cx))?;
                    *self = Self::Reading(live);
                }
            }
        }
    }
}

/// A response that is being read.
pub(crate) struct LiveResponse {
    /// Events from the headers.
    head: Vec<ModelEvent>,
    body: reqwest::Body,
    form: ResponseForm,
    decoder: Box<dyn EventDecoder>,
    idle: Duration,
    first_token: Duration,
    has_begun: bool,
    deadline: Pin<Box<Sleep>>,
}

/// The form of a response. Its first bytes show which one it is; the content type of some servers does not.
enum ResponseForm {
    Unknown,
    Events(SseParser),
    /// One JSON document, as far as it has arrived.
    Document(Vec<u8>),
}

/// The deadlines of a [`LiveResponse`].
pub(crate) struct StreamDeadlines {
    pub sent_at: Instant,
    pub first_token: Duration,
    pub idle: Duration,
}

impl LiveResponse {
    pub fn new(
        head: Vec<ModelEvent>,
        body: reqwest::Body,
        decoder: Box<dyn EventDecoder>,
        times: StreamDeadlines,
    ) -> Self {
        Self {
            head,
            body,
            form: ResponseForm::Unknown,
            decoder,
            idle: times.idle,
            first_token: times.first_token,
            has_begun: false,
            deadline: Box::pin(sleep_until(times.sent_at + times.first_token)),
        }
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>> {
        let before = out.len();
        out.append(&mut self.head);
        let mut read = 0;
        let mut is_alive = false;
        let mut has_ended = false;
        while read < MAX_BATCH_BYTES && !has_ended {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    read += data.len();
                    is_alive |= self.decode(&data, out)?;
                }
                Poll::Ready(Some(Err(error))) if !self.decoder.is_complete() => {
                    tracing::debug!(%error, "the model stream broke");
                    self.end(out)?;
                    has_ended = true;
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    self.end(out)?;
                    has_ended = true;
                }
                Poll::Pending => break,
            }
        }
        if self.decoder.is_complete() {
            if !has_ended {
                self.drain_body();
            }
            return Poll::Ready(Ok(StreamFlow::Done));
        }
        if is_alive {
            self.has_begun = true;
            let time = self.decoder.end_time().map_or(self.idle, |time| time.min(self.idle));
            self.deadline.as_mut().reset(Instant::now() + time);
        }
        if out.len() > before {
            return Poll::Ready(Ok(StreamFlow::More));
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.on_deadline(out));
        }
        if read >= MAX_BATCH_BYTES {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Decodes one read. Returns whether it held an event other than a ping.
    fn decode(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<bool, ModelError> {
        if let ResponseForm::Unknown = self.form {
            self.form = match data.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(false),
                Some(b'{' | b'[') => ResponseForm::Document(Vec::new()),
                Some(_) => ResponseForm::Events(SseParser::new(MAX_EVENT_BYTES)),
            };
        }
        let decoder = &mut self.decoder;
        let mut is_alive = false;
        match &mut self.form {
            ResponseForm::Unknown => {}
            ResponseForm::Events(parser) => parser.feed(data, |name, data| {
                is_alive |= name != b"ping";
                decode_event(decoder, name, data, out)
            })?,
            ResponseForm::Document(bytes) if bytes.len() + data.len() > MAX_EVENT_BYTES => {
                return Err(EventTooLong { max_bytes: MAX_EVENT_BYTES }.into());
            }
            ResponseForm::Document(bytes) => {
                bytes.extend_from_slice(data);
                is_alive = true;
            }
        }
        Ok(is_alive)
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let decoder = &mut self.decoder;
        match &mut self.form {
            ResponseForm::Unknown => {}
            ResponseForm::Events(parser) => {
                parser.finish(|name, data| decode_event(decoder, name, data, out))?;
            }
            ResponseForm::Document(bytes) => with_repair(bytes, |bytes| decoder.document(bytes, out))?,
        }
        if self.decoder.is_complete() { Ok(()) } else { self.decoder.end(out) }
    }

    fn on_deadline(&mut self, out: &mut Vec<ModelEvent>) -> Result<StreamFlow, ModelError> {
        if self.decoder.end_time().is_some() {
            return self.decoder.end(out).map(|()| StreamFlow::Done);
        }
        Err(if self.has_begun {
            ModelError::Stalled(self.idle)
        } else {
            ModelError::FirstTokenTimeout(self.first_token)
        })
    }

    /// Reads the end of a complete response, so that its connection can be reused. Dropping the body would close
    /// the connection, and the next request would need another handshake.
    fn drain_body(&mut self) {
        let mut body = std::mem::replace(&mut self.body, reqwest::Body::from(""));
        // The task needs no owner: it ends by itself within `END_TIME`.
        tokio::spawn(async move {
            let drain =
                async { while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {} };
            let _ = tokio::time::timeout(END_TIME, drain).await;
        });
    }
}

fn decode_event(
    decoder: &mut Box<dyn EventDecoder>,
    name: &[u8],
    data: &[u8],
    out: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    if decoder.is_complete() || data.is_empty() {
        return Ok(());
    }
    with_repair(data, |data| decoder.event(name, data, out))
}

/// Decodes JSON, and once more without invalid characters if it cannot be read.
fn with_repair(
    data: &[u8],
    mut decode: impl FnMut(&[u8]) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let mut result = decode(data);
    if let (Err(ModelError::Unreadable(_)), Some(repaired)) = (&result, repaired(data)) {
        result = decode(&repaired);
    }
    if let Err(ModelError::Unreadable(error)) = &result {
        tracing::warn!(%error, bytes = data.len(), "cannot read an event of the model");
    }
    result
}
