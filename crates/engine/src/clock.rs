//! Times in the units of the protocol.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Converts a duration to milliseconds.
pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn unix_now_ms() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(crate) fn unix_now() -> i64 {
    unix_now_ms() / 1000
}
