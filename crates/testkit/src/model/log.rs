//! The received requests in order, within limits.

use std::collections::VecDeque;

use bytes::Bytes;
use hyper::http::request::Parts;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::recorded::RecordedRequest;

/// The newest requests are kept, up to this many …
pub(super) const MAX_REQUESTS: usize = 1_000;
/// … and up to this many bytes of bodies; the newest one is kept whatever its size.
pub(super) const MAX_BYTES: usize = 128 << 20;

pub(super) struct RequestLog {
    kept: Mutex<KeptRequests>,
    /// Number of requests received, for tasks that wait for the next.
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct KeptRequests {
    requests: VecDeque<RecordedRequest>,
    bytes: usize,
    /// The number of the last request that was taken.
    taken: u64,
}

impl RequestLog {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), count: watch::Sender::new(0) }
    }

    pub(super) fn add(&self, parts: &Parts, body: Bytes) -> RecordedRequest {
        let mut kept = self.kept.lock();
        let recorded = RecordedRequest::new(self.count() + 1, parts, body);
        kept.push(recorded.clone());
        // Within the lock, so that the count grows in the order of the requests.
        self.count.send_replace(recorded.number());
        recorded
    }

    pub(super) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    pub(super) fn all(&self) -> Vec<RecordedRequest> {
        self.kept.lock().requests.iter().cloned().collect()
    }

    /// Waits for and returns the oldest request that was not taken yet.
    pub(super) async fn take_next(&self) -> RecordedRequest {
        let mut count = self.count.subscribe();
        loop {
            count.mark_unchanged();
            if let Some(request) = self.kept.lock().take_next() {
                return request;
            }
            // The sender lives as long as `self`, so this ends only with a new request.
            let _ = count.changed().await;
        }
    }
}

impl KeptRequests {
    fn push(&mut self, request: RecordedRequest) {
        self.bytes += request.bytes().len();
        self.requests.push_back(request);
        while self.requests.len() > MAX_REQUESTS || (self.bytes > MAX_BYTES && self.requests.len() > 1) {
            let oldest = self.requests.pop_front();
            self.bytes -= oldest.map_or(0, |request| request.bytes().len());
        }
    }

    fn take_next(&mut self) -> Option<RecordedRequest> {
        let wanted = self.taken + 1;
        let request = self.requests.iter().find(|request| request.number() >= wanted)?;
        assert!(
            request.number() == wanted,
            "request #{wanted} is forgotten: the last {MAX_REQUESTS} requests and {MAX_BYTES} bytes are kept"
        );
        self.taken = wanted;
        Some(request.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &RequestLog, body: &Bytes) {
        let (parts, ()) = hyper::Request::post("/v1/responses").body(()).unwrap().into_parts();
        log.add(&parts, body.clone());
    }

    #[test]
    fn only_the_newest_requests_are_kept() {
        let log = RequestLog::new();
        (0..MAX_REQUESTS + 5).for_each(|_| add(&log, &Bytes::from_static(b"{}")));
        assert_eq!(log.all().len(), MAX_REQUESTS);
        assert_eq!(log.all()[0].number(), 6);
        assert_eq!(log.count(), MAX_REQUESTS as u64 + 5);
    }

    #[test]
    fn large_requests_replace_more_of_the_old_ones() {
        let log = RequestLog::new();
        let body = Bytes::from(vec![0; MAX_BYTES + 1]);
        (0..3).for_each(|_| add(&log, &body.slice(..MAX_BYTES / 2)));
        assert_eq!(log.all().len(), 2);
        add(&log, &body);
        assert_eq!(log.all().iter().map(RecordedRequest::number).collect::<Vec<_>>(), [4]);
    }

    #[tokio::test]
    #[should_panic(expected = "request #1 is forgotten")]
    async fn a_dropped_request_is_an_error() {
        let log = RequestLog::new();
        (0..=MAX_REQUESTS).for_each(|_| add(&log, &Bytes::from_static(b"{}")));
        log.take_next().await;
    }
}
