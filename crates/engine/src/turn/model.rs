//! Model requests of a turn: responses that clients see, and summaries for compaction. Failed requests are retried
//! as the provider's policy says.

use codicil_model::{EventStream, HistoryItem, ModelError, ModelEvent, ModelRequest, StreamFlow};
use codicil_prompts::{approx_tokens, kept_within, message_text};
use codicil_protocol::ThreadItem;

use super::{
    TurnStop, TurnTask,
    response::{ModelResponse, ResponseReader},
};
use crate::{ids::new_item_id, turn_channel::TurnEvent};

/// Why a stream ended early.
enum StreamError {
    Cancelled,
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
            let streamed = self.stream_response(request.clone(), &mut reader).await;
            self.reporter.report(reader.close()).await;
            match streamed {
                Ok(()) => return Ok(reader.finish()),
                Err(StreamError::Cancelled) => return Err(TurnStop::Interrupted),
                Err(StreamError::Model(error)) => self.wait_for_retry(&mut retries, error).await?,
            }
        }
    }

    async fn stream_response(
        &self,
        request: ModelRequest,
        reader: &mut ResponseReader,
    ) -> Result<(), StreamError> {
        let mut stream = self.provider.stream(request);
        let mut model_events = Vec::new();
        loop {
            let flow = self.next_events(&mut stream, &mut model_events).await;
            if let Err(StreamError::Cancelled) = flow {
                return Err(StreamError::Cancelled);
            }
            // A stream that fails may have delivered events before.
            let mut events = reader.read(model_events.drain(..));
            self.save_images(&mut events).await;
            self.reporter.report(events).await;
            if flow? == StreamFlow::Done {
                return Ok(());
            }
        }
    }

    /// Has the model summarize the history. If the turn is cancelled meanwhile, the history stays as it was.
    pub(super) async fn compact(&self, mut request: ModelRequest) -> Result<(), TurnStop> {
        let item = new_item_id();
        self.reporter
            .report_one(TurnEvent::Started(ThreadItem::ContextCompaction { id: item.clone() }))
            .await;
        let mut retries = 0;
        loop {
            match self.stream_summary(request.clone()).await {
                Ok(summary) => {
                    self.reporter.report_one(TurnEvent::Compacted { item, summary }).await;
                    return Ok(());
                }
                Err(StreamError::Cancelled) => return Err(TurnStop::Interrupted),
                Err(StreamError::Model(ModelError::ContextWindowExceeded)) if shorten(&mut request) => {}
                Err(StreamError::Model(error)) => self.wait_for_retry(&mut retries, error).await?,
            }
        }
    }

    /// Returns the text of a response. It is meant for the model, so clients do not see it.
    async fn stream_summary(&self, request: ModelRequest) -> Result<String, StreamError> {
        let mut stream = self.provider.stream(request);
        let mut model_events = Vec::new();
        let mut summary = String::new();
        loop {
            let flow = self.next_events(&mut stream, &mut model_events).await?;
            for event in model_events.drain(..) {
                match event {
                    ModelEvent::ItemDone { item, .. } => summary.push_str(&message_text(&item)),
                    ModelEvent::Completed { usage: Some(usage), .. } => {
                        self.reporter.report_one(TurnEvent::Used(usage)).await
                    }
                    _ => {}
                }
            }
            if flow == StreamFlow::Done {
                return Ok(summary);
            }
        }
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

    /// Reports the error and waits before the next attempt. Fails if the provider's policy allows no further one.
    async fn wait_for_retry(&self, retries: &mut u32, error: ModelError) -> Result<(), TurnStop> {
        *retries += 1;
        let policy = self.provider.limits().stream;
        let Some(delay) = policy.delay(*retries, &error) else {
            return Err(TurnStop::Failed(error.to_turn_error()));
        };
        tracing::debug!(retry = *retries, %error, "retrying the model request");
        self.reporter
            .report_one(TurnEvent::Retrying(error.to_retry_error(*retries, policy.max_retries)))
            .await;
        match tokio::time::timeout(delay, self.cancel.cancelled()).await {
            Ok(()) => Err(TurnStop::Interrupted),
            Err(_) => Ok(()),
        }
    }
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
