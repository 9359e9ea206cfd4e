//! The answer to a message, as it comes.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::Stream;
use tokio_util::sync::CancellationToken;

use super::{error::PoolError, message::StreamMessage, outbox::MessageOutbox};

/// A stream of messages that ends with exactly one final one. Dropping it before stops the turn.
#[derive(Debug)]
pub struct ReplyStream {
    outbox: Arc<MessageOutbox>,
    stop: CancellationToken,
}

impl ReplyStream {
    pub(super) fn new(outbox: Arc<MessageOutbox>, stop: CancellationToken) -> Self {
        Self { outbox, stop }
    }

    /// Waits for the next message; `None` after the last. Safe to drop while waiting.
    pub async fn next(&mut self) -> Option<StreamMessage> {
        std::future::poll_fn(|cx| self.outbox.poll(cx)).await
    }

    /// Stops this turn; the stream ends soon after. Other messages of the agent are not affected.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// All of the text, once the turn has ended. Questions in between are left to others who were told.
    pub async fn text(mut self) -> Result<String, PoolError> {
        let mut all = String::new();
        while let Some(message) = self.next().await {
            match message {
                StreamMessage::Text { text } => all.push_str(&text),
                StreamMessage::Error { message, code, is_final: true } => {
                    return Err(PoolError::Turn { code, message });
                }
                _ => {}
            }
        }
        Ok(all)
    }
}

impl Stream for ReplyStream {
    type Item = StreamMessage;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamMessage>> {
        self.outbox.poll(cx)
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
