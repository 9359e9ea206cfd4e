//! Admission of turns: a FIFO queue with a limit that may change.
//!
//! The order and the wake-ups come from [`tokio::sync::Semaphore`], which is fair. Two things are added to it. A caller
//! joins the queue when it calls [`TurnQueue::join`], not when it first polls the future. And the limit may drop below
//! the number of permits in use, which a semaphore cannot express: the surplus permits are destroyed as they are
//! returned.

use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError},
    task::unconstrained,
};

/// The queue of turns that wait to run.
#[derive(Clone, Debug)]
pub(super) struct TurnQueue {
    permits: Arc<Semaphore>,
    limit: Arc<Mutex<TurnLimit>>,
}

#[derive(Debug)]
struct TurnLimit {
    max: usize,
    /// Permits in use beyond the limit, to be destroyed when they are returned.
    surplus: usize,
}

/// The right to run a turn. Dropping it admits the next one in the queue.
#[derive(Debug)]
pub(super) struct TurnPermit {
    permit: Option<OwnedSemaphorePermit>,
    limit: Arc<Mutex<TurnLimit>>,
}

impl TurnQueue {
    pub fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(max)),
            limit: Arc::new(Mutex::new(TurnLimit { max, surplus: 0 })),
        }
    }

    /// Joins the end of the queue before this function returns. The future waits for the permit and yields `None` when
    /// the queue is closed. Dropping the future leaves the queue.
    pub fn join(&self) -> impl Future<Output = Option<TurnPermit>> + Send + use<> {
        // The first poll takes the place in the semaphore's queue. It must not be postponed by tokio's cooperative
        // scheduling, which may refuse to poll in a busy task.
        let mut acquiring = Box::pin(unconstrained(self.permits.clone().acquire_owned()));
        let first = acquiring.as_mut().now_or_never();
        let limit = self.limit.clone();
        async move {
            let acquired = match first {
                Some(acquired) => acquired,
                None => acquiring.await,
            };
            acquired.ok().map(|permit| TurnPermit { permit: Some(permit), limit })
        }
    }

    /// Returns a permit if one is free and no turn waits.
    pub fn try_join(&self) -> Option<TurnPermit> {
        match self.permits.clone().try_acquire_owned() {
            Ok(permit) => Some(TurnPermit { permit: Some(permit), limit: self.limit.clone() }),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    /// Changes the number of turns that may run at the same time. Running turns are not affected.
    pub fn set_limit(&self, max: usize) {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        let mut limit = self.limit.lock();
        if max > limit.max {
            let added = max - limit.max;
            let kept = added.min(limit.surplus);
            limit.surplus -= kept;
            self.permits.add_permits(added - kept);
        } else if max < limit.max {
            let removed = limit.max - max;
            limit.surplus += removed - self.permits.forget_permits(removed);
        }
        limit.max = max;
    }

    /// Fails all waiting and future calls. Running turns keep their permits.
    pub fn close(&self) {
        self.permits.close();
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        let mut limit = self.limit.lock();
        let Some(permit) = self.permit.take() else { return };
        if limit.surplus > 0 {
            limit.surplus -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Joining = std::pin::Pin<Box<dyn Future<Output = Option<TurnPermit>>>>;

    fn join(queue: &TurnQueue) -> Joining {
        Box::pin(queue.join())
    }

    fn poll(joining: &mut Joining) -> Option<Option<TurnPermit>> {
        joining.now_or_never()
    }

    #[test]
    fn turns_run_in_the_order_of_their_calls() {
        let queue = TurnQueue::new(1);
        let mut first = join(&queue);
        let mut second = join(&queue);
        let mut third = join(&queue);
        // Polled in another order.
        assert!(poll(&mut third).is_none() && poll(&mut second).is_none());
        let permit = poll(&mut first).unwrap().unwrap();
        assert!(queue.try_join().is_none());
        drop(permit);
        assert!(poll(&mut third).is_none());
        drop(poll(&mut second).unwrap().unwrap());
        assert!(poll(&mut third).unwrap().is_some());
    }

    #[test]
    fn a_dropped_caller_leaves_the_queue() {
        let queue = TurnQueue::new(1);
        let mut first = join(&queue);
        let second = join(&queue);
        let mut third = join(&queue);
        let permit = poll(&mut first).unwrap();
        drop(second);
        drop(permit);
        // This one gets its permit, and is dropped before it is polled again.
        let fourth = join(&queue);
        drop(poll(&mut third).unwrap());
        drop(fourth);
        let permit = poll(&mut join(&queue)).unwrap();
        assert!(permit.is_some());
        (0..1000).for_each(|_| drop(join(&queue)));
        drop(permit);
        assert!(queue.try_join().is_some());
    }

    #[test]
    fn the_limit_may_grow_and_shrink() {
        let queue = TurnQueue::new(1);
        let mut joining: Vec<_> = (0..5).map(|_| join(&queue)).collect();
        queue.set_limit(3);
        let permits: Vec<_> = joining.iter_mut().filter_map(poll).collect();
        assert_eq!(permits.len(), 3);
        queue.set_limit(1);
        drop(permits);
        let permits: Vec<_> = joining.iter_mut().skip(3).filter_map(poll).collect();
        assert_eq!(permits.len(), 1);
    }

    #[test]
    fn growing_again_keeps_permits_in_use() {
        let queue = TurnQueue::new(3);
        let permits: Vec<_> = (0..3).map(|_| queue.try_join().unwrap()).collect();
        queue.set_limit(1);
        queue.set_limit(2);
        drop(permits);
        let permits: Vec<_> = (0..3).filter_map(|_| queue.try_join()).collect();
        assert_eq!(permits.len(), 2);
    }

    #[test]
    fn a_closed_queue_admits_no_turn() {
        let queue = TurnQueue::new(1);
        let mut first = join(&queue);
        let mut second = join(&queue);
        let permit = poll(&mut first).unwrap();
        queue.close();
        assert!(poll(&mut second).unwrap().is_none());
        drop(permit);
        assert!(poll(&mut join(&queue)).unwrap().is_none());
        assert!(queue.try_join().is_none());
    }
}
