//! Messages on their way to whoever reads a reply.
//!
//! Nobody waits for a slow reader: text that was not read yet grows together, and beyond a number of bytes the
//! oldest messages go. The reader is told how many.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

use super::message::StreamMessage;

/// Unread text grows together up to here, so that it can be dropped piece by piece.
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
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        state.add(message);
        state.trim(self.max_bytes);
        state.wake();
    }

    /// Adds the last message.
    pub fn finish(&self, message: StreamMessage) {
        self.push(message);
        let mut state = self.lock();
        state.is_over = true;
        state.wake();
    }

    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<StreamMessage>> {
        let mut state = self.lock();
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

    /// A list of whole messages at any time.
    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock()
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
        // The newest stays, however large it is.
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
    fn unread_text_grows_together() {
        let outbox = MessageOutbox::new(10_000);
        let thought = StreamMessage::Thinking { text: "Hm".to_owned() };
        for message in [text("a"), text("b"), thought.clone(), text("c")] {
            outbox.push(message);
        }
        assert_eq!(read(&outbox), [text("ab"), thought, text("c")]);
        outbox.push(text("d"));
        assert_eq!(read(&outbox), [text("d")]);
        assert_eq!(outbox.lock().bytes, 0);
    }

    #[test]
    fn the_oldest_go_and_the_last_word_stays() {
        let outbox = MessageOutbox::new(3000);
        for number in 0..100 {
            outbox.push(StreamMessage::Diff { item_id: None, diff: number.to_string() });
        }
        outbox.finish(StreamMessage::stopped(None));
        outbox.push(text("too late"));
        let read = read(&outbox);
        let StreamMessage::Missed { count } = read[0] else { panic!("{read:?}") };
        assert_eq!(count as usize + read.len() - 1, 101);
        assert!(read.last().unwrap().is_final());
    }

    #[test]
    fn one_text_that_is_too_long_is_not_dropped() {
        let outbox = MessageOutbox::new(1000);
        (0..100).for_each(|_| outbox.push(text(&"x".repeat(100))));
        assert_eq!(read(&outbox), [text(&"x".repeat(10_000))]);
    }
}
