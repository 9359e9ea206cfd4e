//! Having the model sum up a conversation that is getting too long.

use codicil_model::{HistoryItem, ModelError, ModelEvent, ModelRequest, StreamFlow};
use codicil_prompts::{approx_tokens, kept_within, message_text};
use codicil_protocol::{ThreadItem, TurnError};

use super::TurnTask;
use crate::{ids::new_item_id, step::TurnEvent};

impl TurnTask {
    /// False when the turn was cancelled meanwhile; then the history stays as it was.
    pub(super) async fn compact(&self, mut request: ModelRequest) -> Result<bool, TurnError> {
        let item = new_item_id();
        self.steps.one(TurnEvent::Started(ThreadItem::ContextCompaction { id: item.clone() })).await;
        let mut retry = 0;
        loop {
            match self.summary(request.clone()).await {
                Ok(Some(summary)) => {
                    self.steps.one(TurnEvent::Compacted { item, summary }).await;
                    return Ok(true);
                }
                Ok(None) => return Ok(false),
                Err(ModelError::ContextWindowExceeded) if shorten(&mut request) => {}
                Err(error) => {
                    if !self.retries(&mut retry, error).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// What the model says, without showing it: it is meant for the model itself.
    async fn summary(&self, request: ModelRequest) -> Result<Option<String>, ModelError> {
        let mut stream = self.provider.stream(request);
        let mut events = Vec::new();
        let mut summary = String::new();
        loop {
            let flow = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ok(None),
                flow = stream.next(&mut events) => flow?,
            };
            for event in events.drain(..) {
                match event {
                    ModelEvent::ItemDone { item, .. } => summary.push_str(&message_text(&item)),
                    ModelEvent::Completed { usage: Some(usage), .. } => {
                        self.steps.one(TurnEvent::Used(usage)).await
                    }
                    _ => {}
                }
            }
            if flow == StreamFlow::Done {
                return Ok(Some(summary));
            }
        }
    }
}

/// Leaves out the older half of a history that cannot even be summed up; what is left of it is better than
/// a thread that can never go on. False when nothing more can go.
fn shorten(request: &mut ModelRequest) -> bool {
    let items = || request.input.iter().map(HistoryItem::item);
    let tokens: u64 = items().map(approx_tokens).sum();
    let kept = kept_within(items(), tokens / 2);
    let is_shorter = kept.contains(&false);
    let rest = request.input.iter().zip(kept).filter(|(_, is_kept)| *is_kept);
    request.input = rest.map(|(item, _)| item.clone()).collect();
    is_shorter
}
