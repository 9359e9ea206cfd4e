//! A stream of events, and the part of it that all HTTP dialects share: reading, batching, deadlines.
//!
//! Everything that can be read without waiting becomes one batch. The stream is polled by its caller; no
//! task stands between the socket and the turn, apart from the connection's own.

use std::{
    borrow::Cow,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use codicil_http::SseParser;
use http_body::Body as _;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    ModelError, ModelEvent,
    ceilings::{MAX_EVENT_BYTES, ResponseTally},
};

/// A batch ends after about this many bytes, so that a flood cannot keep its reader from the rest.
const BATCH: usize = 256 * 1024;

/// How long a stream whose answer is finished may take to say its last words.
const GRACE: Duration = Duration::from_secs(2);

/// The answer to a request, as batches of events.
pub struct EventStream {
    /// `None` after the end.
    source: Option<Box<dyn EventSource>>,
    tally: ResponseTally,
}

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFlow {
    More,
    /// [`Event::Completed`] has been given.
    Done,
}

impl EventStream {
    pub(crate) fn new(source: impl EventSource + 'static) -> Self {
        Self { source: Some(Box::new(source)), tally: ResponseTally::default() }
    }

    /// Waits for the next events and adds them to `events`.
    ///
    /// When it fails, `events` may still have got what came before the failure; use it first. Dropping
    /// the future loses nothing: the next call goes on where it was.
    pub async fn next(&mut self, events: &mut Vec<ModelEvent>) -> Result<StreamFlow, ModelError> {
        poll_fn(|cx| self.poll_next(cx, events)).await
    }

    /// [`next`](Self::next) for callers with a poll loop of their own.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>> {
        let Some(source) = &mut self.source else { return Poll::Ready(Ok(StreamFlow::Done)) };
        let first = events.len();
        let result = ready!(source.poll_batch(cx, events));
        // What is over a ceiling counts more than how the batch ended.
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

/// Where the events of a stream come from.
pub(crate) trait EventSource: Send {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Poll<Result<StreamFlow, ModelError>>;
}

/// Turns a dialect's server-sent events into ours.
pub(crate) trait EventDecoder: Send {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// The connection ended, or nothing but formalities can follow.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;

    /// [`Event::Completed`] has been given.
    fn is_complete(&self) -> bool;

    /// The answer is whole, though the dialect's last word is still missing.
    fn is_finishing(&self) -> bool {
        false
    }
}

/// Returns the name of an event. Some gateways drop the `event:` lines; the data's `type` then says the same.
pub(crate) fn event_name<'a>(name: &'a [u8], data: &'a [u8]) -> Cow<'a, [u8]> {
    #[derive(Deserialize)]
    struct TypedEvent<'a> {
        #[serde(rename = "type", borrow)]
        name: Cow<'a, str>,
    }

    if !name.is_empty() {
        return Cow::Borrowed(name);
    }
    match serde_json::from_slice::<TypedEvent<'_>>(data).map(|typed| typed.name) {
        Ok(Cow::Borrowed(name)) => Cow::Borrowed(name.as_bytes()),
        Ok(Cow::Owned(name)) => Cow::Owned(name.into_bytes()),
        Err(_) => Cow::Borrowed(b""),
    }
}

/// A stream over HTTP: first the request is made, then its answer is read.
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

/// An answer that is being read.
pub(crate) struct LiveResponse {
    /// What the headers said.
    head: Vec<ModelEvent>,
    body: reqwest::Body,
    parser: SseParser,
    decoder: Box<dyn EventDecoder>,
    idle: Duration,
    first_token: Duration,
    has_begun: bool,
    deadline: Pin<Box<Sleep>>,
}

/// The times that [`LiveResponse`] watches.
pub(crate) struct StreamDeadlines {
    pub asked_at: Instant,
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
            parser: SseParser::new(MAX_EVENT_BYTES),
            decoder,
            idle: times.idle,
            first_token: times.first_token,
            has_begun: false,
            deadline: Box::pin(sleep_until(times.asked_at + times.first_token)),
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
        while read < BATCH && !has_ended {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    read += data.len();
                    is_alive |= self.decode(&data, out)?;
                }
                Poll::Ready(Some(Err(error))) if !self.decoder.is_complete() => {
                    tracing::debug!(%error, "the model's stream broke");
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
                self.let_go();
            }
            return Poll::Ready(Ok(StreamFlow::Done));
        }
        if is_alive {
            self.has_begun = true;
            let patience = if self.decoder.is_finishing() { GRACE.min(self.idle) } else { self.idle };
            self.deadline.as_mut().reset(Instant::now() + patience);
        }
        if out.len() > before {
            return Poll::Ready(Ok(StreamFlow::More));
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.out_of_time(out));
        }
        if read >= BATCH {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Decodes one read. Says whether it held an event that is more than a sign of life.
    fn decode(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<bool, ModelError> {
        let mut is_alive = false;
        let decoder = &mut self.decoder;
        self.parser.feed(data, |name, data| {
            is_alive |= name != b"ping";
            if decoder.is_complete() { Ok(()) } else { decoder.event(name, data, out) }
        })?;
        Ok(is_alive)
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let decoder = &mut self.decoder;
        self.parser.finish(
            |name, data| {
                if decoder.is_complete() { Ok(()) } else { decoder.event(name, data, out) }
            },
        )?;
        if self.decoder.is_complete() { Ok(()) } else { self.decoder.end(out) }
    }

    fn out_of_time(&mut self, out: &mut Vec<ModelEvent>) -> Result<StreamFlow, ModelError> {
        if self.decoder.is_finishing() {
            return self.decoder.end(out).map(|()| StreamFlow::Done);
        }
        Err(if self.has_begun {
            ModelError::Stalled(self.idle)
        } else {
            ModelError::FirstTokenTimeout(self.first_token)
        })
    }

    /// Reads the formal end of a finished answer, so that its connection can be used again. Dropping the
    /// body here would close it, and the next request would pay for another handshake.
    fn let_go(&mut self) {
        let mut body = std::mem::replace(&mut self.body, reqwest::Body::from(""));
        // Nobody needs to stop this task: it ends by itself within the grace time.
        tokio::spawn(async move {
            let drain =
                async { while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {} };
            let _ = tokio::time::timeout(GRACE, drain).await;
        });
    }
}
