//! How often a failed request is retried, and after which delay.
//!
//! Two loops use [`RetryPolicy`]. The provider retries a *request* that got no stream, without a notification.
//! The turn retries a *stream* that broke and notifies its client each time, so that loop is the caller's.

use std::time::Duration;

use codicil_http::Backoff;

use crate::ModelError;

/// A number of retries with exponential backoff. A delay that the provider asks for replaces the backoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How many times a failed attempt is repeated; 0 means never.
    pub max_retries: u32,
    pub backoff: Backoff,
    /// The longest delay accepted from a provider. A provider that asks for more is not asked again.
    pub max_retry_after: Duration,
}

/// How much longer the backoff is for a provider that is asked too often or has too much to do.
const THROTTLED_FACTOR: u32 = 5;

/// The longest delay without a notification. A longer one is left to the turn, which says why it waits.
const MAX_SILENT_DELAY: Duration = Duration::from_secs(2);

impl RetryPolicy {
    pub const fn new(max_retries: u32) -> Self {
        Self {
            max_retries,
            backoff: Backoff { first: Duration::from_millis(200), max: Duration::from_secs(20), jitter: 0.1 },
            max_retry_after: Duration::from_secs(90),
        }
    }

    /// Returns the delay before retry number `retry` (the first is 1) of a stream that failed with `error`;
    /// `None` to give up.
    pub fn delay(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if error.is_retryable() { self.delay_after(retry, error) } else { None }
    }

    /// Returns the same for requests that got no stream, where fewer errors are worth a retry.
    pub(crate) fn request_delay(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if !error.is_request_retryable() || error.retry_after().is_some_and(|delay| delay > MAX_SILENT_DELAY)
        {
            return None;
        }
        self.delay_after(retry, error)
    }

    fn delay_after(&self, retry: u32, error: &ModelError) -> Option<Duration> {
        if retry > self.max_retries {
            return None;
        }
        match error.retry_after() {
            Some(delay) => (delay <= self.max_retry_after).then_some(delay),
            None if error.is_throttled() => Some(self.backoff.delay(retry) * THROTTLED_FACTOR),
            None => Some(self.backoff.delay(retry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode, header};

    use super::*;

    fn disconnected_early() -> ModelError {
        ModelError::NoResponse { url: "u".into(), cause: "gone".into() }
    }

    fn disconnected() -> ModelError {
        ModelError::Disconnected("gone".into())
    }

    fn rate_limited(seconds: u64) -> ModelError {
        let retry_after = Some(Duration::from_secs(seconds));
        ModelError::RateLimited { message: None, retry_after, request_id: None }
    }

    #[test]
    fn a_requested_delay_is_kept_unless_it_is_too_long() {
        let policy = RetryPolicy::new(2);
        assert_eq!(policy.delay(1, &rate_limited(7)), Some(Duration::from_secs(7)));
        assert_eq!(policy.delay(2, &rate_limited(0)), Some(Duration::ZERO));
        assert_eq!(policy.delay(1, &rate_limited(3600)), None);
    }

    #[test]
    fn retries_end() {
        assert_eq!(RetryPolicy::new(0).delay(1, &disconnected()), None);
        assert!(RetryPolicy::new(2).delay(2, &disconnected()).is_some());
        assert_eq!(RetryPolicy::new(2).delay(3, &disconnected()), None);
        assert_eq!(RetryPolicy::new(2).delay(1, &ModelError::ContextWindowExceeded { details: None }), None);
        assert_eq!(RetryPolicy::new(2).delay(1, &ModelError::Incomplete("length".into())), None);
    }

    #[test]
    fn a_busy_provider_gets_more_time() {
        let policy = RetryPolicy::new(5);
        let busy = ModelError::Overloaded { message: None, retry_after: None };
        let unlimited = ModelError::RateLimited { message: None, retry_after: None, request_id: None };
        for error in [busy, unlimited] {
            let delay = policy.delay(1, &error).unwrap();
            assert!((Duration::from_millis(900)..=Duration::from_millis(1100)).contains(&delay), "{delay:?}");
        }
    }

    #[test]
    fn a_long_wait_is_not_silent() {
        let policy = RetryPolicy::new(5);
        assert!(policy.request_delay(1, &disconnected_early()).is_some());
        let busy = |seconds| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            crate::status::failure(StatusCode::SERVICE_UNAVAILABLE, &headers, "", "")
        };
        assert_eq!(policy.request_delay(1, &busy(1)), Some(Duration::from_secs(1)));
        assert_eq!(policy.request_delay(1, &busy(30)), None);
        assert_eq!(policy.delay(1, &busy(30)), Some(Duration::from_secs(30)));
    }
}
