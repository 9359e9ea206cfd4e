//! Model requests of a turn: responses that clients see, and summaries for compaction. Failed requests are retried
//! as the provider's policy says.

use std::time::Duration;

use codicil_model::{EventStream, History, HistoryItem, ModelError, ModelEvent, ModelRequest, StreamFlow};
use codicil_prompts::{approx_tokens, kept_within, message_text};
use codicil_protocol::{ResponseItem, ThreadItem, TurnError};
use codicil_telemetry::spans::{TurnIds, model_request_span};
use tracing::{Instrument, Span};

use super::{
    TurnStop, TurnTask,
    request_timer::RequestTimer,
    response::{ModelResponse, ResponseReader},
};
use crate::{ids::new_item_id, turn_channel::TurnEvent};

/// Why a stream ended early.
enum StreamError {
    Cancelled,
    /// The user has added input that the model should see at once.
    Steered,
    Model(ModelError),
}

impl From<ModelError> for StreamError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl TurnTask {
    /// Requests one response and reports it as it arrives.
    pub(super) async fn respond(&self, request: &ModelRequest) -> Result<ModelResponse, TurnStop> {
        let mut retries = 0;
        loop {
            let mut reader = ResponseReader::new(self.thread.clone(), self.turn.clone(), self.visibility);
            let span = self.request_span(request);
            let error = match self.stream_response(request.clone(), &mut reader).instrument(span).await {
                Ok(()) => {
                    self.reporter.report(reader.close()).await;
                    return Ok(reader.finish());
                }
                Err(StreamError::Cancelled) => {
                    self.reporter.report(reader.close()).await;
                    return Err(TurnStop::Interrupted);
                }
                Err(StreamError::Steered) => {
                    reader.keep_open_messages();
                    self.reporter.report(reader.close()).await;
                    return Ok(reader.finish());
                }
                Err(StreamError::Model(error)) => error,
            };
            if let Some(delay) = self.retry_delay(&mut retries, &error) {
                self.reporter.report(reader.discard()).await;
                self.wait_for_retry(retries, &error, delay).await?;
                continue;
            }
            if let ModelError::Incomplete(_) = error {
                reader.keep_open_messages();
            }
            self.reporter.report(reader.close()).await;
            return Err(TurnStop::Failed(final_error(&error, &request.input)));
        }
    }

    async fn stream_response(
        &self,
        request: ModelRequest,
        reader: &mut ResponseReader,
    ) -> Result<(), StreamError> {
        let mut stream = self.provider.stream(request);
        let mut timer = RequestTimer::start(Span::current());
        let mut model_events = Vec::new();
        let mut response_ends = self.response_ends.clone();
        response_ends.mark_unchanged();
        loop {
            let flow = tokio::select! {
                biased;
                Ok(()) = response_ends.changed() => return Err(StreamError::Steered),
                flow = self.next_events(&mut stream, &mut model_events) => flow,
            };
            if let Err(StreamError::Cancelled) = flow {
                return Err(StreamError::Cancelled);
            }
            timer.note(&model_events);
            if flow.is_err() {
                timer.failed();
            }
            // A stream that fails may have delivered events before.
            let mut events = reader.read(model_events.drain(..));
            self.save_images(&mut events).await;
            self.reporter.report(events).await;
            if flow? == StreamFlow::Done {
                timer.completed();
                return Ok(());
            }
        }
    }

    /// Has the model summarize the history. If the turn is cancelled meanwhile, the history stays as it was.
    pub(super) async fn compact(&self, mut request: ModelRequest) -> Result<(), TurnStop> {
        let item = new_item_id();
        self.reporter
            .report_one(TurnEvent::Started(Box::new(ThreadItem::ContextCompaction { id: item.clone() })))
            .await;
        let mut retries = 0;
        loop {
            let span = self.request_span(&request);
            match self.stream_summary(request.clone()).instrument(span).await {
                Ok(summary) => {
                    self.reporter.report_one(TurnEvent::Compacted { item, summary }).await;
                    return Ok(());
                }
                Err(StreamError::Cancelled | StreamError::Steered) => return Err(TurnStop::Interrupted),
                Err(StreamError::Model(ModelError::ContextWindowExceeded { .. }))
                    if shorten(&mut request) => {}
                Err(StreamError::Model(error)) => match self.retry_delay(&mut retries, &error) {
                    Some(delay) => self.wait_for_retry(retries, &error, delay).await?,
                    None => return Err(TurnStop::Failed(error.to_turn_error())),
                },
            }
        }
    }

    /// Returns the text of a response. It is meant for the model, so clients do not see it.
    async fn stream_summary(&self, request: ModelRequest) -> Result<String, StreamError> {
        let mut stream = self.provider.stream(request);
        let mut timer = RequestTimer::start(Span::current());
        let mut model_events = Vec::new();
        let mut summary = String::new();
        loop {
            let flow = self.next_events(&mut stream, &mut model_events).await;
            timer.note(&model_events);
            for event in model_events.drain(..) {
                match event {
                    ModelEvent::ItemDone { item, .. } => summary.push_str(&message_text(&item)),
                    ModelEvent::Used(usage) | ModelEvent::Completed { usage: Some(usage), .. } => {
                        self.reporter.report_one(TurnEvent::Used(usage)).await
                    }
                    _ => {}
                }
            }
            match flow {
                Ok(StreamFlow::More) => {}
                Ok(StreamFlow::Done) => {
                    timer.completed();
                    return Ok(summary);
                }
                // The beginning of a summary is better than a thread that cannot go on.
                Err(StreamError::Model(ModelError::Incomplete(reason))) if !summary.is_empty() => {
                    tracing::warn!(reason, "the summary of the history is incomplete");
                    timer.completed();
                    return Ok(summary);
                }
                Err(error) => {
                    if let StreamError::Model(_) = error {
                        timer.failed();
                    }
                    return Err(error);
                }
            }
        }
    }

    fn request_span(&self, request: &ModelRequest) -> Span {
        let ids = TurnIds { thread: &self.thread, turn: &self.turn };
        model_request_span(ids, self.provider.id(), &request.model)
    }

    async fn next_events(
        &self,
        stream: &mut EventStream,
        events: &mut Vec<ModelEvent>,
    ) -> Result<StreamFlow, StreamError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(StreamError::Cancelled),
            flow = stream.next(events) => Ok(flow?),
        }
    }

    /// Counts a failed attempt. Returns the delay before the next one; `None` if the provider's policy allows no more.
    fn retry_delay(&self, retries: &mut u32, error: &ModelError) -> Option<Duration> {
        *retries += 1;
        self.provider.limits().stream.delay(*retries, error)
    }

    /// Reports why the request is sent again, and waits.
    async fn wait_for_retry(&self, retry: u32, error: &ModelError, delay: Duration) -> Result<(), TurnStop> {
        tracing::debug!(retry, %error, "retrying the model request");
        let max_retries = self.provider.limits().stream.max_retries;
        self.reporter.report_one(TurnEvent::Retrying(error.to_retry_error(retry, max_retries))).await;
        match tokio::time::timeout(delay, self.cancel.cancelled()).await {
            Ok(()) => Err(TurnStop::Interrupted),
            Err(_) => Ok(()),
        }
    }
}

/// Returns the error of a request that fails for good. A first message that is too long says so, because compacting
/// the thread would not help.
fn final_error(error: &ModelError, history: &History) -> TurnError {
    let mut turn_error = error.to_turn_error();
    let is_first = !history.iter().any(|item| is_of_model(item.item()));
    if matches!(error, ModelError::ContextWindowExceeded { .. }) && is_first {
        turn_error.message = "the first message, with the instructions and tools, does not fit the model's context \
                              window, and there is nothing to compact; shorten it or choose a model with a larger \
                              window"
            .to_owned();
    }
    turn_error
}

fn is_of_model(item: &ResponseItem) -> bool {
    !matches!(item, ResponseItem::Message { role, .. } if role != "assistant")
}

/// Drops the older half of a history that is too long even for a summary. A summary of the rest is better than a
/// thread that cannot go on. Returns false if nothing more can be dropped.
fn shorten(request: &mut ModelRequest) -> bool {
    let items = || request.input.iter().map(HistoryItem::item);
    let tokens: u64 = items().map(approx_tokens).sum();
    let kept = kept_within(items(), tokens / 2);
    let is_shorter = kept.contains(&false);
    let rest = request.input.iter().zip(kept).filter(|(_, is_kept)| *is_kept);
    request.input = rest.map(|(item, _)| item.clone()).collect();
    is_shorter
}
