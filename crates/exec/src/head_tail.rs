//! A bounded buffer for output: it keeps the beginning and the end, and counts the bytes in between.

use std::{borrow::Cow, collections::VecDeque, fmt};

use crate::spec::CaptureLimit;

/// A byte buffer that never holds more than its limits, however much is pushed.
#[derive(Clone, PartialEq, Eq)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    total: u64,
}

impl HeadTail {
    /// Returns a buffer that keeps `cap` bytes, half of them from the end. The beginning gets the odd one.
    pub fn new(cap: usize) -> HeadTail {
        HeadTail::split(cap - cap / 2, cap / 2)
    }

    /// Returns a buffer that keeps `head_cap` bytes from the beginning and `tail_cap` bytes from the end.
    pub fn split(head_cap: usize, tail_cap: usize) -> HeadTail {
        HeadTail { head: Vec::new(), tail: VecDeque::new(), head_cap, tail_cap, total: 0 }
    }

    /// Returns a buffer that keeps what the limit allows.
    pub fn with_limit(limit: CaptureLimit) -> HeadTail {
        match limit {
            CaptureLimit::HeadTail(cap) => HeadTail::new(cap),
            CaptureLimit::Head(cap) => HeadTail::split(cap, 0),
            CaptureLimit::Unlimited => HeadTail::split(usize::MAX, 0),
        }
    }

    /// Appends the next bytes of the output. Copies only the bytes that are kept.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.head_cap - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Only the last `tail_cap` bytes can be part of the tail.
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_cap));
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Returns the number of bytes pushed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes kept.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Returns whether no bytes are kept. Always true if the limits are 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes left out between head and tail.
    pub fn omitted(&self) -> u64 {
        self.total - self.len() as u64
    }

    /// Returns the beginning of the output, which is all of it while it fits.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the end of the output, after the bytes that were left out.
    pub fn tail(&self) -> Cow<'_, [u8]> {
        match self.tail.as_slices() {
            (front, []) => Cow::Borrowed(front),
            (front, back) => Cow::Owned([front, back].concat()),
        }
    }

    /// Returns head and tail joined. Equal to the output if nothing was left out.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        let (front, back) = self.tail.as_slices();
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        bytes
    }

    /// Returns head and tail as text. If bytes were left out, `note` is called with their number and its result is put
    /// in between. Invalid UTF-8 is replaced; a character cut in two is left out and counted.
    pub fn to_text(&self, note: impl FnOnce(u64) -> String) -> String {
        if self.omitted() == 0 {
            return String::from_utf8_lossy(&[&self.head, self.tail().as_ref()].concat()).into_owned();
        }
        let tail = self.tail();
        let head = trim_partial_end(&self.head);
        let tail = trim_partial_start(&tail);
        let omitted = self.total - (head.len() + tail.len()) as u64;
        format!("{}{}{}", String::from_utf8_lossy(head), note(omitted), String::from_utf8_lossy(tail))
    }

    /// Returns the contents and leaves an empty buffer with the same limits.
    pub fn take(&mut self) -> HeadTail {
        let empty = HeadTail::split(self.head_cap, self.tail_cap);
        std::mem::replace(self, empty)
    }
}

/// Removes the first bytes of a character whose remaining bytes were cut off.
fn trim_partial_end(bytes: &[u8]) -> &[u8] {
    (1..=bytes.len().min(3))
        .map(|length| bytes.split_at(bytes.len() - length))
        // `error_len` is absent if more bytes could complete the character.
        .find(|(_, end)| {
            std::str::from_utf8(end).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
        })
        .map_or(bytes, |(start, _)| start)
}

/// Removes the last bytes of a character whose first bytes were cut off.
fn trim_partial_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    bytes.split_at(continuation).1
}

/// Prints sizes only: output is long and may be secret.
impl fmt::Debug for HeadTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadTail({} of {} bytes)", self.len(), self.total)
    }
}
