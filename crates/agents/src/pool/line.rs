//! Whose turn it is: a queue in order of arrival, with a limit that may change.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Where turns wait to run.
#[derive(Clone, Debug)]
pub(super) struct TurnQueue(Arc<Mutex<TurnQueueState>>);

#[derive(Debug)]
struct TurnQueueState {
    limit: usize,
    running: usize,
    waiting: VecDeque<oneshot::Sender<TurnPermit>>,
    is_closed: bool,
}

/// The right to run. The next in line gets it when it is dropped.
#[derive(Debug)]
pub(super) struct TurnPermit(Option<TurnQueue>);

impl TurnQueue {
    pub fn new(limit: usize) -> Self {
        let waiting = VecDeque::new();
        Self(Arc::new(Mutex::new(TurnQueueState {
            limit: limit.max(1),
            running: 0,
            waiting,
            is_closed: false,
        })))
    }

    /// Takes a place at the end, before this returns. `None` when the line is closed.
    pub fn enter(&self) -> impl Future<Output = Option<TurnPermit>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if !state.is_closed {
            // Those who gave up would otherwise stay until it is their turn.
            state.waiting.retain(|waiter| !waiter.is_closed());
            state.waiting.push_back(sender);
        }
        drop(state);
        self.admit();
        async move { receiver.await.ok() }
    }

    /// Goes at once, if nobody has to be waited for.
    pub fn try_enter(&self) -> Option<TurnPermit> {
        let mut state = self.lock();
        let is_free = !state.is_closed && state.waiting.is_empty() && state.running < state.limit;
        is_free.then(|| {
            state.running += 1;
            TurnPermit(Some(self.clone()))
        })
    }

    /// More of those who wait may go, or fewer from now on.
    pub fn set_limit(&self, limit: usize) {
        let mut state = self.lock();
        if state.limit != limit.max(1) {
            state.limit = limit.max(1);
            drop(state);
            self.admit();
        }
    }

    /// Sends away all who wait, and who will come.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    fn admit(&self) {
        loop {
            let mut state = self.lock();
            if state.running >= state.limit {
                return;
            }
            let Some(waiter) = state.waiting.pop_front() else { return };
            state.running += 1;
            drop(state);
            if let Err(mut slot) = waiter.send(TurnPermit(Some(self.clone()))) {
                // Nobody waits any more; its drop would come back here.
                slot.0 = None;
                self.lock().running -= 1;
            }
        }
    }

    /// Counts and a list, changed together.
    fn lock(&self) -> MutexGuard<'_, TurnQueueState> {
        self.0.lock()
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.lock().running -= 1;
            line.admit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = std::pin::Pin<Box<dyn Future<Output = Option<TurnPermit>>>>;

    fn enter(line: &TurnQueue) -> Waiting {
        Box::pin(line.enter())
    }

    fn poll(waiting: &mut Waiting) -> Option<Option<TurnPermit>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(slot) => Some(slot),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_after_the_other_in_order_of_arrival() {
        let line = TurnQueue::new(1);
        let (mut a, mut b, mut c) = (enter(&line), enter(&line), enter(&line));
        // Asked in another order.
        assert!(poll(&mut c).is_none() && poll(&mut b).is_none());
        let first = poll(&mut a).unwrap().unwrap();
        drop(first);
        assert!(poll(&mut c).is_none());
        drop(poll(&mut b).unwrap().unwrap());
        assert!(poll(&mut c).unwrap().is_some());
    }

    #[test]
    fn those_who_give_up_hold_up_nobody() {
        let line = TurnQueue::new(1);
        let (mut a, b, mut c) = (enter(&line), enter(&line), enter(&line));
        let first = poll(&mut a).unwrap();
        drop(b);
        drop(first);
        // Granted, and given up before it was looked at.
        let d = enter(&line);
        drop(poll(&mut c).unwrap());
        drop(d);
        assert!(poll(&mut enter(&line)).unwrap().is_some());
        let head = poll(&mut enter(&line)).unwrap();
        (0..1000).for_each(|_| drop(enter(&line)));
        assert!(line.lock().waiting.len() <= 1, "they do not pile up");
        drop(head);
    }

    #[test]
    fn the_limit_may_grow_and_shrink() {
        let line = TurnQueue::new(1);
        let mut all: Vec<_> = (0..5).map(|_| enter(&line)).collect();
        line.set_limit(3);
        let slots: Vec<_> = all.iter_mut().filter_map(poll).collect();
        assert_eq!(slots.len(), 3);
        line.set_limit(1);
        drop(slots);
        let slots: Vec<_> = all.iter_mut().skip(3).filter_map(poll).collect();
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn a_closed_line_sends_everybody_away() {
        let line = TurnQueue::new(1);
        let (mut a, mut b) = (enter(&line), enter(&line));
        let slot = poll(&mut a).unwrap();
        line.close();
        assert!(poll(&mut b).unwrap().is_none());
        drop(slot);
        assert!(poll(&mut enter(&line)).unwrap().is_none());
    }
}
