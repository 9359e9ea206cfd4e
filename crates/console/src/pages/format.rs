//! Ages, durations and numbers for people.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Returns the current time in Unix seconds.
pub fn unix_now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Returns how long ago a time was: `now`, `5 min`, `3 h`, `2 d`.
pub fn age(seconds: i64) -> String {
    let passed = unix_now().saturating_sub(seconds).max(0);
    match passed {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min", passed / 60),
        3600..86_400 => format!("{} h", passed / 3600),
        _ => format!("{} d", passed / 86_400),
    }
}

/// Returns a time for a `datetime` attribute and a tooltip.
pub fn timestamp(seconds: i64) -> String {
    Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

/// Returns a duration: `340 ms`, `4.2 s`, `3 min 5 s`.
pub fn duration(milliseconds: i64) -> String {
    match milliseconds.max(0) {
        short @ 0..1000 => format!("{short} ms"),
        seconds @ 1000..60_000 => format!("{:.1} s", seconds as f64 / 1000.0),
        long => format!("{} min {} s", long / 60_000, long % 60_000 / 1000),
    }
}

/// Returns a count of tokens: `950`, `12.3k`, `1.2M`.
pub fn tokens(count: i64) -> String {
    match count.max(0) {
        small @ 0..1000 => small.to_string(),
        medium @ 1000..1_000_000 => format!("{:.1}k", medium as f64 / 1e3),
        large => format!("{:.1}M", large as f64 / 1e6),
    }
}

/// Returns the last two parts of a path, which tell directories apart.
pub fn short_path(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    let mut slashes = trimmed.rmatch_indices('/').skip(1);
    slashes.next().and_then(|(index, _)| trimmed.get(index + 1..)).unwrap_or(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short() {
        assert_eq!(duration(340), "340 ms");
        assert_eq!(duration(4200), "4.2 s");
        assert_eq!(duration(185_000), "3 min 5 s");
        assert_eq!(
            (tokens(950), tokens(12_340), tokens(1_250_000)),
            ("950".into(), "12.3k".into(), "1.2M".into())
        );
        assert_eq!(short_path("/home/me/projects/codicil/"), "projects/codicil");
        assert_eq!((short_path("/a"), short_path("/")), ("/a", ""));
        assert_eq!((age(unix_now()), age(unix_now() - 7200)), ("now".to_owned(), "2 h".to_owned()));
    }
}
