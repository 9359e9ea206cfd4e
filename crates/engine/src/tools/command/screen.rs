//! What a command writes, as clients see it while it runs and as its item keeps it.

use codicil_exec::HeadTail;
use codicil_protocol::{
    CommandExecutionOutputDelta, CommandExecutionOutputDeltaNotification, Frame, ItemId, ThreadId, TurnId,
};

use crate::turn_channel::TurnEvent;

/// How much of a command's output its item keeps; what is in the middle goes first.
const KEPT_BYTES: usize = 1 << 20;

/// How much of a command's output is streamed. Who wants to see more reads the item.
const STREAMED_BYTES: usize = 1 << 20;

/// The output of one command.
pub(crate) struct CommandScreen {
    thread: ThreadId,
    turn: TurnId,
    item: ItemId,
    text: TextStream,
    kept: HeadTail,
    streamed: usize,
}

impl CommandScreen {
    pub fn new(thread: ThreadId, turn: TurnId, item: ItemId) -> Self {
        let (text, kept) = (TextStream::default(), HeadTail::new(KEPT_BYTES));
        Self { thread, turn, item, text, kept, streamed: 0 }
    }

    /// Takes the next bytes; gives what is to be told about them.
    pub fn show(&mut self, bytes: &[u8]) -> Option<TurnEvent> {
        self.kept.push(bytes);
        if self.streamed >= STREAMED_BYTES {
            return None;
        }
        self.streamed += bytes.len();
        let text = self.text.feed(bytes);
        self.delta(text)
    }

    /// The output is complete: what is left to tell.
    pub fn flush(&mut self) -> Option<TurnEvent> {
        let rest = self.text.finish();
        self.delta(rest)
    }

    fn delta(&self, delta: String) -> Option<TurnEvent> {
        if delta.is_empty() {
            return None;
        }
        let params = CommandExecutionOutputDeltaNotification {
            thread_id: self.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: self.item.clone(),
            delta,
        };
        Some(TurnEvent::Notification(Frame::notification::<CommandExecutionOutputDelta>(&params)))
    }

    /// What the item keeps; `None` when nothing was written.
    pub fn output(&self) -> Option<String> {
        let note = |omitted| format!("\n[{omitted} bytes left out]\n");
        (self.kept.total() > 0).then(|| self.kept.to_text(note))
    }
}

/// Text out of bytes that may be cut within a character.
#[derive(Default)]
struct TextStream {
    cut: Vec<u8>,
}

impl TextStream {
    /// The text that can be told by now. The beginning of a character waits for its rest.
    fn feed(&mut self, bytes: &[u8]) -> String {
        self.cut.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.cut) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.cut.len(),
        };
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        text
    }

    /// A character that will not be completed any more.
    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.cut)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive_being_cut() {
        let whole = "a\u{e4}\u{20ac}\u{1f600}z";
        for at in 0..=whole.len() {
            let (first, second) = whole.as_bytes().split_at(at);
            let mut stream = TextStream::default();
            assert_eq!(stream.feed(first) + &stream.feed(second), whole, "cut at {at}");
        }
        assert_eq!(TextStream::default().feed(b"a\xffb"), "a\u{fffd}b");
        let mut stream = TextStream::default();
        assert_eq!(stream.feed(b"a\xe2\x82") + &stream.finish(), "a\u{fffd}");
    }

    #[test]
    fn more_than_is_streamed_is_kept_at_both_ends() {
        let mut screen = CommandScreen::new("t".into(), "u".into(), "i".into());
        let chunk = vec![b'x'; STREAMED_BYTES];
        assert!(screen.show(&chunk).is_some());
        assert!(screen.show(b"the end").is_none());
        let output = screen.output().unwrap();
        assert!(output.contains("[7 bytes left out]") && output.ends_with("the end"));
    }
}
