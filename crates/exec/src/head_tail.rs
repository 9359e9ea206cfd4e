//! Output within a ceiling: the beginning and the end are kept, what is between them is counted.

use std::{borrow::Cow, collections::VecDeque, fmt};

use crate::spec::CaptureLimit;

/// A byte buffer that never holds more than its cap, however much is pushed.
#[derive(Clone, PartialEq, Eq)]
pub struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    total: u64,
}

impl HeadTail {
    /// Keeps `cap` bytes, half of them for the end. The beginning gets the odd one.
    pub fn new(cap: usize) -> HeadTail {
        HeadTail::split(cap - cap / 2, cap / 2)
    }

    /// Keeps so many bytes of the beginning and so many of the end.
    pub fn split(head_cap: usize, tail_cap: usize) -> HeadTail {
        HeadTail { head: Vec::new(), tail: VecDeque::new(), head_cap, tail_cap, total: 0 }
    }

    pub fn with_cap(cap: CaptureLimit) -> HeadTail {
        match cap {
            CaptureLimit::HeadTail(cap) => HeadTail::new(cap),
            CaptureLimit::Head(cap) => HeadTail::split(cap, 0),
            CaptureLimit::Unlimited => HeadTail::split(usize::MAX, 0),
        }
    }

    /// Takes the next bytes of the output. Costs at most a copy of what is kept of them.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.head_cap - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        // Of more than fits only the last part can stay.
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_cap));
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// How many bytes were pushed.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes are kept.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether nothing is kept, which a cap of 0 also makes true.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes were left out, all of them between head and tail.
    pub fn omitted(&self) -> u64 {
        self.total - self.len() as u64
    }

    /// The beginning; everything as long as it fits there.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The end, after what was left out.
    pub fn tail(&self) -> Cow<'_, [u8]> {
        match self.tail.as_slices() {
            (one, []) => Cow::Borrowed(one),
            (one, two) => Cow::Owned([one, two].concat()),
        }
    }

    /// What was kept, head and tail joined. Exactly the output when nothing was left out.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        let (one, two) = self.tail.as_slices();
        bytes.extend_from_slice(one);
        bytes.extend_from_slice(two);
        bytes
    }

    /// What was kept as text, with `note` of the number of bytes left out between head and tail. What is not
    /// UTF-8 is replaced; a character that the cut went through is left out and counted.
    pub fn to_text(&self, note: impl FnOnce(u64) -> String) -> String {
        if self.omitted() == 0 {
            return String::from_utf8_lossy(&[&self.head, self.tail().as_ref()].concat()).into_owned();
        }
        let tail = self.tail();
        let (head, tail) = (whole_end(&self.head), whole_start(&tail));
        let omitted = self.total - (head.len() + tail.len()) as u64;
        format!("{}{}{}", String::from_utf8_lossy(head), note(omitted), String::from_utf8_lossy(tail))
    }

    /// Hands out what there is and starts anew with the same caps.
    pub fn take(&mut self) -> HeadTail {
        let empty = HeadTail::split(self.head_cap, self.tail_cap);
        std::mem::replace(self, empty)
    }
}

/// Without the first bytes of a character whose rest was cut off.
fn whole_end(bytes: &[u8]) -> &[u8] {
    (1..=bytes.len().min(3))
        .map(|length| bytes.split_at(bytes.len() - length))
        // `error_len` is absent when more bytes could have made the character whole.
        .find(|(_, end)| {
            std::str::from_utf8(end).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
        })
        .map_or(bytes, |(start, _)| start)
}

/// Without the last bytes of a character whose beginning was cut off.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    bytes.split_at(continuation).1
}

/// Shows sizes: output may be secret, and it is long.
impl fmt::Debug for HeadTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeadTail({} of {} bytes)", self.len(), self.total)
    }
}
