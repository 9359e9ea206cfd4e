//! How often and after which wait a failed request is repeated.
//!
//! Two loops use this. The provider repeats a *request* that got no stream at all, silently. The turn
//! repeats a *stream* that broke, and tells its client each time; so that loop is the caller's.

use std::time::Duration;

use crate::ModelError;

/// Retries with exponential backoff. A wait that the provider asks for replaces the backoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How many times a failed attempt is repeated; 0 means never.
    pub max_retries: u32,
    /// The wait before the first retry; it doubles with each further one.
    pub base: Duration,
    /// The longest wait of our own choosing.
    pub cap: Duration,
    /// The longest wait accepted from a provider. A provider that asks for more is not asked again.
    pub patience: Duration,
}

impl RetryPolicy {
    pub const fn new(max_retries: u32) -> Self {
        Self {
            max_retries,
            base: Duration::from_millis(200),
            cap: Duration::from_secs(20),
            patience: Duration::from_secs(90),
        }
    }

    /// How long to wait before retry number `retry` (the first is 1) after `error`; `None` to give up.
    pub fn delay(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if !error.is_retryable() {
            return None;
        }
        self.delay_with(retry, error, fastrand::f64())
    }

    /// The same for requests that got no stream, where fewer errors are worth a retry.
    pub(crate) fn request_delay(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if !error.is_request_retryable() {
            return None;
        }
        self.delay_with(retry, error, fastrand::f64())
    }

    /// `jitter` is between 0 and 1 and spreads the wait by a tenth to either side, so that many clients
    /// of one provider do not come back at the same instant.
    fn delay_with(&self, retry: u32, error: &ModelError, jitter: f64) -> Option<Duration> {
        if retry > self.max_retries {
            return None;
        }
        match error.retry_after() {
            Some(wait) => (wait <= self.patience).then_some(wait),
            None => {
                let doublings = retry.saturating_sub(1).min(16);
                let wait = self.base.saturating_mul(1 << doublings).min(self.cap);
                Some(wait.mul_f64(0.9 + 0.2 * jitter))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut() -> ModelError {
        ModelError::Disconnected("gone".into())
    }

    fn asks_for(seconds: u64) -> ModelError {
        ModelError::RateLimited { retry_after: Some(Duration::from_secs(seconds)), request_id: None }
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let policy = RetryPolicy::new(20);
        let check = |retry, expected| {
            assert_eq!(policy.delay_with(retry, &cut(), 0.5), Some(Duration::from_millis(expected)));
        };
        check(1, 200);
        check(2, 400);
        check(5, 3200);
        check(8, 20_000);
        check(20, 20_000);
    }

    #[test]
    fn jitter_stays_within_a_tenth() {
        let policy = RetryPolicy::new(1);
        assert_eq!(policy.delay_with(1, &cut(), 0.0), Some(Duration::from_millis(180)));
        assert_eq!(policy.delay_with(1, &cut(), 1.0), Some(Duration::from_millis(220)));
    }

    #[test]
    fn a_wait_asked_for_is_kept_unless_it_is_too_long() {
        let policy = RetryPolicy::new(2);
        assert_eq!(policy.delay(1, &asks_for(7)), Some(Duration::from_secs(7)));
        assert_eq!(policy.delay(2, &asks_for(0)), Some(Duration::ZERO));
        assert_eq!(policy.delay(1, &asks_for(3600)), None);
    }

    #[test]
    fn retries_end() {
        assert_eq!(RetryPolicy::new(0).delay(1, &cut()), None);
        assert_eq!(RetryPolicy::new(2).delay(3, &cut()), None);
        assert_eq!(RetryPolicy::new(2).delay(1, &ModelError::ContextWindowExceeded), None);
    }
}
