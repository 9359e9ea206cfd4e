//! The events of a thread's pages: sent to all of them as the same bytes, and kept for browsers that connect again.
//!
//! A page that reads too slowly is dropped. Its browser connects again with the id of the last event it has, and gets the
//! events since then, or the whole page if they are no longer kept.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::page_ops::{PageOp, encode_event};

/// Events that are kept for browsers that connect again.
const KEPT_EVENTS: usize = 1024;
const KEPT_BYTES: usize = 1 << 20;

/// Events that may wait for one page, and their bytes.
const PAGE_EVENTS: usize = 128;
const PAGE_BYTES: usize = 4 << 20;

/// The pages of a thread and what they have received.
#[derive(Debug)]
pub struct PageEvents {
    pages: Vec<PageSender>,
    /// The position of what was sent to pages.
    sent: u64,
    kept: VecDeque<KeptEvent>,
    kept_bytes: usize,
    /// The position before the oldest kept event.
    floor: u64,
    /// The whole page at the last position, once a page has needed it.
    whole: Option<Bytes>,
}

/// The sending end of a page's queue.
#[derive(Debug)]
struct PageSender {
    events: mpsc::Sender<Bytes>,
    /// The bytes that wait.
    queued: Arc<AtomicUsize>,
}

/// The events of a page in their order.
#[derive(Debug)]
pub struct PageReceiver {
    events: mpsc::Receiver<Bytes>,
    queued: Arc<AtomicUsize>,
}

fn page_queue() -> (PageSender, PageReceiver) {
    let (sender, events) = mpsc::channel(PAGE_EVENTS);
    let queued = Arc::<AtomicUsize>::default();
    (PageSender { events: sender, queued: queued.clone() }, PageReceiver { events, queued })
}

impl PageSender {
    /// Adds an event. Returns false if too much waits. An empty queue takes an event of any size.
    fn send(&self, bytes: &Bytes) -> bool {
        let before = self.queued.fetch_add(bytes.len(), Ordering::Relaxed);
        (before == 0 || before + bytes.len() <= PAGE_BYTES) && self.events.try_send(bytes.clone()).is_ok()
    }
}

impl PageReceiver {
    /// Waits for the next event; `None` when the page was dropped. Cancel safe.
    pub async fn recv(&mut self) -> Option<Bytes> {
        let bytes = self.events.recv().await?;
        self.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        Some(bytes)
    }
}

/// An event that pages have received: the messages after one position and up to another.
#[derive(Debug)]
struct KeptEvent {
    from: u64,
    seq: u64,
    bytes: Bytes,
}

impl PageEvents {
    pub fn new(seq: u64) -> Self {
        Self { pages: Vec::new(), sent: seq, kept: VecDeque::new(), kept_bytes: 0, floor: seq, whole: None }
    }

    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Sends operations to all pages, and keeps them for browsers that connect again.
    pub fn send(&mut self, seq: u64, ops: &[PageOp]) {
        let bytes = encode_event(Some(seq), ops);
        self.deliver(&bytes);
        let from = std::mem::replace(&mut self.sent, seq);
        self.kept_bytes += bytes.len();
        self.kept.push_back(KeptEvent { from, seq, bytes });
        while self.kept.len() > KEPT_EVENTS || self.kept_bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.bytes.len();
            self.floor = oldest.seq;
        }
    }

    /// Moves the position behind messages that change nothing on pages.
    pub fn skip_to(&mut self, seq: u64) {
        self.sent = seq;
        self.whole = None;
    }

    /// Replaces what all pages show. Earlier events are of no use any more.
    pub fn start_over(&mut self, seq: u64, ops: &[PageOp]) {
        let pages = std::mem::take(&mut self.pages);
        *self = Self { pages, ..Self::new(seq) };
        self.deliver(&encode_event(Some(seq), ops));
    }

    /// Ends the streams of all pages. Their browsers connect again.
    pub fn disconnect(&mut self) {
        self.pages.clear();
    }

    /// Adds a page at a position. `whole_page` is asked only if the events after the position do not lead to the present,
    /// and once for all pages that connect between two events. Returns `None` if what the page has missed does not fit.
    pub fn attach(
        &mut self,
        after: Option<u64>,
        whole_page: impl FnOnce() -> Vec<PageOp>,
    ) -> Option<PageReceiver> {
        let (page, events) = page_queue();
        let is_queued = match after.and_then(|after| self.missed(after)) {
            Some(missed) => missed.iter().all(|bytes| page.send(bytes)),
            None => {
                let seq = self.sent;
                page.send(self.whole.get_or_insert_with(|| encode_event(Some(seq), &whole_page())))
            }
        };
        if !is_queued {
            return None;
        }
        self.pages.retain(|page| !page.events.is_closed());
        self.pages.push(page);
        Some(events)
    }

    fn deliver(&mut self, bytes: &Bytes) {
        self.whole = None;
        self.pages.retain(|page| page.send(bytes));
    }

    /// Returns the events after a position; `None` if they are too many or do not continue there.
    fn missed(&self, after: u64) -> Option<Vec<Bytes>> {
        // A page of another process may have a part of an event.
        let is_within = |event: &KeptEvent| event.from < after && after < event.seq;
        if after < self.floor || after > self.sent || self.kept.iter().any(is_within) {
            return None;
        }
        let missed: Vec<_> =
            self.kept.iter().filter(|event| event.seq > after).map(|event| event.bytes.clone()).collect();
        (missed.len() < PAGE_EVENTS / 2).then_some(missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<PageOp> {
        vec![PageOp::Text { id: "a".to_owned(), text: text.to_owned() }]
    }

    fn received(page: &mut PageReceiver) -> Vec<Bytes> {
        std::iter::from_fn(|| page.events.try_recv().ok()).collect()
    }

    fn no_page() -> Vec<PageOp> {
        panic!("the events are enough")
    }

    #[test]
    fn what_fifty_pages_get_is_encoded_once() {
        let mut events = PageEvents::new(1);
        let mut rendered = 0;
        let mut pages: Vec<_> = (0..50)
            .map(|_| {
                let whole = || {
                    rendered += 1;
                    text("whole")
                };
                events.attach(None, whole).unwrap()
            })
            .collect();
        assert_eq!(rendered, 1, "the whole page is rendered once for all that connect");
        (2..100).for_each(|seq| events.send(seq, &text("more")));
        let all: Vec<_> = pages.iter_mut().map(received).collect();
        for page in &all {
            assert_eq!(page.len(), 99);
            // The same memory, not only the same content.
            assert!(page.iter().zip(&all[0]).all(|(one, other)| one.as_ptr() == other.as_ptr()));
        }
        let mut late = events.attach(None, || text("changed")).unwrap();
        assert!(String::from_utf8_lossy(&received(&mut late)[0]).contains("changed"));
    }

    #[test]
    fn a_page_continues_where_it_was_or_starts_again() {
        let mut events = PageEvents::new(10);
        events.send(20, &text("one"));
        events.send(30, &text("two"));
        events.skip_to(35);
        for (after, expected) in [(35, 0), (30, 0), (20, 1), (10, 2)] {
            let mut page = events.attach(Some(after), no_page).unwrap();
            assert_eq!(received(&mut page).len(), expected, "{after}");
        }
        // Before the first event, in the middle of one, and in the future.
        for after in [9, 25, 36] {
            let mut page = events.attach(Some(after), || text("whole")).unwrap();
            let first = received(&mut page).remove(0);
            assert!(String::from_utf8_lossy(&first).starts_with("id: 35\n"), "{after}");
        }
        events.start_over(40, &text("again"));
        assert!(events.missed(35).is_none() && events.missed(40).is_some());
    }

    #[test]
    fn a_page_that_does_not_read_is_dropped_and_memory_is_bounded() {
        let mut events = PageEvents::new(0);
        let mut idle = events.attach(None, || text("whole")).unwrap();
        let long = "x".repeat(10_000);
        (1..=5_000).for_each(|seq| events.send(seq, &text(&long)));
        assert!(!events.has_pages());
        assert_eq!(received(&mut idle).len(), PAGE_EVENTS);
        let mut idle = events.attach(None, || text("whole")).unwrap();
        let large = "x".repeat(1 << 20);
        (5_001..5_010).for_each(|seq| events.send(seq, &text(&large)));
        assert!(!events.has_pages());
        let bytes: usize = received(&mut idle).iter().map(Bytes::len).sum();
        assert!(bytes <= PAGE_BYTES, "{bytes}");
        assert!(events.kept_bytes <= KEPT_BYTES && events.kept.len() <= KEPT_EVENTS);
        assert_eq!(events.kept_bytes, events.kept.iter().map(|event| event.bytes.len()).sum::<usize>());
    }
}
