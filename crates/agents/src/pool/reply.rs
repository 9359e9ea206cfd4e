//! The reply to a message: a stream for the reader, and the bounded queue behind it.
//!
//! A slow reader delays nothing. Unread text is merged into one message; beyond a number of bytes the oldest messages are
//! dropped, and the reader learns how many.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::Stream;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{error::PoolError, message::StreamMessage};

/// A stream of messages that ends with exactly one final message. Dropping it before that stops the turn.
#[derive(Debug)]
pub struct ReplyStream {
    outbox: Arc<MessageOutbox>,
    stop: CancellationToken,
}

impl ReplyStream {
    pub(super) fn new(outbox: Arc<MessageOutbox>, stop: CancellationToken) -> Self {
        Self { outbox, stop }
    }

    /// Returns the next message, or `None` after the final one. Cancel safe.
    pub async fn next(&mut self) -> Option<StreamMessage> {
        std::future::poll_fn(|cx| self.outbox.poll(cx)).await
    }

    /// Stops this turn; the stream ends soon after. Other messages of the agent are not affected.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Returns the whole text once the turn has ended. Questions in between must be answered by another part of the
    /// program, or they are declined after a while.
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

/// Bytes up to which unread text is merged, so that it can be dropped piece by piece.
const MAX_TEXT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct MessageOutbox {
    state: Mutex<OutboxState>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct OutboxState {
    waiting: VecDeque<StreamMessage>,
    bytes: usize,
    missed: u64,
    is_over: bool,
    reader: Option<Waker>,
}

impl MessageOutbox {
    pub fn new(max_bytes: usize) -> Self {
        Self { state: Mutex::default(), max_bytes }
    }

    pub fn push(&self, message: StreamMessage) {
        let mut state = self.state.lock();
        if state.is_over {
            return;
        }
        state.add(message);
        state.trim(self.max_bytes);
        state.wake();
    }

    /// Appends the final message.
    pub fn finish(&self, message: StreamMessage) {
        self.push(message);
        let mut state = self.state.lock();
        state.is_over = true;
        state.wake();
    }

    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<StreamMessage>> {
        let mut state = self.state.lock();
        if state.missed > 0 {
            let count = std::mem::take(&mut state.missed);
            return Poll::Ready(Some(StreamMessage::Missed { count }));
        }
        if let Some(message) = state.waiting.pop_front() {
            state.bytes -= message.size();
            return Poll::Ready(Some(message));
        }
        if state.is_over {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl OutboxState {
    fn add(&mut self, message: StreamMessage) {
        use StreamMessage::{Text, Thinking};
        match (self.waiting.back_mut(), message) {
            (Some(Text { text }), Text { text: more })
            | (Some(Thinking { text }), Thinking { text: more })
                if text.len() + more.len() <= MAX_TEXT =>
            {
                text.push_str(&more);
                self.bytes += more.len();
            }
            (_, message) => {
                self.bytes += message.size();
                self.waiting.push_back(message);
            }
        }
    }

    fn trim(&mut self, max_bytes: usize) {
        // The newest message stays, regardless of its size.
        while self.bytes > max_bytes && self.waiting.len() > 1 {
            let Some(oldest) = self.waiting.pop_front() else { return };
            self.bytes -= oldest.size();
            self.missed += 1;
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::message::EditState;

    fn text(text: &str) -> StreamMessage {
        StreamMessage::Text { text: text.to_owned() }
    }

    fn read(outbox: &MessageOutbox) -> Vec<StreamMessage> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        while let Poll::Ready(Some(message)) = outbox.poll(&mut cx) {
            read.push(message);
        }
        read
    }

    #[test]
    fn unread_text_is_merged() {
        let outbox = MessageOutbox::new(10_000);
        let thought = StreamMessage::Thinking { text: "Hm".to_owned() };
        for message in [text("a"), text("b"), thought.clone(), text("c")] {
            outbox.push(message);
        }
        assert_eq!(read(&outbox), [text("ab"), thought, text("c")]);
        outbox.push(text("d"));
        assert_eq!(read(&outbox), [text("d")]);
        assert_eq!(outbox.state.lock().bytes, 0);
    }

    #[test]
    fn the_oldest_messages_are_dropped_and_the_final_one_stays() {
        let outbox = MessageOutbox::new(3000);
        for number in 0..100 {
            outbox.push(StreamMessage::Diff {
                item_id: None,
                diff: number.to_string(),
                state: EditState::Applied,
            });
        }
        outbox.finish(StreamMessage::stopped(None));
        outbox.push(text("too late"));
        let read = read(&outbox);
        let StreamMessage::Missed { count } = read[0] else { panic!("{read:?}") };
        assert_eq!(count as usize + read.len() - 1, 101);
        assert!(read.last().unwrap().is_final());
    }

    #[test]
    fn a_single_long_text_is_not_dropped() {
        let outbox = MessageOutbox::new(1000);
        (0..100).for_each(|_| outbox.push(text(&"x".repeat(100))));
        assert_eq!(read(&outbox), [text(&"x".repeat(10_000))]);
    }
}
