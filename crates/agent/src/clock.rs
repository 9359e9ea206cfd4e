//! Wall-clock times for the wire.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn unix_now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn unix_now() -> i64 {
    unix_now_ms() / 1000
}
