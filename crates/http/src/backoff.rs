//! Exponential backoff: the delay before a retry.
//!
//! Only the delay is computed here. Which failures are retried, how often, and what a `Retry-After` header
//! changes is decided by the callers: the model provider, the turn and the MCP transport.

use std::time::Duration;

/// A delay that doubles with each retry up to a maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Delay before the first retry.
    pub first: Duration,
    /// Upper bound of the delay, before jitter.
    pub max: Duration,
    /// Fraction by which a delay is randomly lengthened or shortened, so that the many clients of one server
    /// do not return at the same instant. 0 means exact delays.
    pub jitter: f64,
}

impl Backoff {
    /// Returns the delay before retry number `retry`; the first retry is 1.
    pub fn delay(&self, retry: u32) -> Duration {
        self.delay_at(retry, fastrand::f64())
    }

    /// `position` is between 0 and 1 and selects the delay within the jitter range.
    fn delay_at(&self, retry: u32, position: f64) -> Duration {
        let doublings = retry.saturating_sub(1).min(16);
        let delay = self.first.saturating_mul(1 << doublings).min(self.max);
        delay.mul_f64(1.0 - self.jitter + 2.0 * self.jitter * position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_millis(200), max: Duration::from_secs(20), jitter: 0.1 };

    #[test]
    fn delays_double_up_to_the_maximum() {
        let check = |retry, expected| {
            assert_eq!(BACKOFF.delay_at(retry, 0.5), Duration::from_millis(expected), "retry {retry}");
        };
        check(1, 200);
        check(2, 400);
        check(5, 3200);
        check(8, 20_000);
        check(20, 20_000);
        check(u32::MAX, 20_000);
    }

    #[test]
    fn jitter_spreads_a_delay_to_either_side() {
        assert_eq!(BACKOFF.delay_at(1, 0.0), Duration::from_millis(180));
        assert_eq!(BACKOFF.delay_at(1, 1.0), Duration::from_millis(220));
        let exact = Backoff { jitter: 0.0, ..BACKOFF };
        assert_eq!(exact.delay_at(1, 0.3), Duration::from_millis(200));
    }
}
