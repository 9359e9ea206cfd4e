//! Time formats of the store: RFC 3339 in UTC with milliseconds in records, local time in file names.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use uuid::Uuid;

/// The length of `2026-11-15T20:00:00.123Z`.
pub const STAMP_LEN: usize = 24;

/// Formats a time for a record.
pub fn stamp(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Formats a time for a cursor.
pub fn stamp_seconds(at: i64) -> Option<String> {
    Timestamp::from_second(at).ok().map(|at| at.to_string())
}

/// Parses the time of a record or cursor to Unix seconds.
pub fn parse_seconds(stamp: &str) -> Option<i64> {
    // Rounded down like in the reference server, also before 1970.
    stamp.parse::<Timestamp>().ok().map(|at| at.as_millisecond().div_euclid(1000))
}

/// Returns the time in a version 7 UUID; `None` for other ids.
pub fn id_time(id: &str) -> Option<Timestamp> {
    let uuid = Uuid::try_parse(id).ok().filter(|uuid| uuid.get_version_num() == 7)?;
    let (seconds, nanos) = uuid.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
}

/// Returns the local time, as used in file and directory names.
pub fn local(at: Timestamp) -> DateTime {
    at.to_zoned(TimeZone::system()).datetime()
}

/// Parses the local time of a file name, such as `2026-11-15T20-00-00`.
pub fn parse_local(name: &str) -> Option<Timestamp> {
    let local = DateTime::strptime("%Y-%m-%dT%H-%M-%S", name).ok()?;
    Some(local.to_zoned(TimeZone::system()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_milliseconds_and_z() {
        let at = Timestamp::new(1_794_772_800, 123_987_654).unwrap();
        assert_eq!(stamp(at), "2026-11-15T20:00:00.123Z");
        assert_eq!(stamp(at).len(), STAMP_LEN);
        assert_eq!(stamp(Timestamp::from_second(1_794_772_800).unwrap()), "2026-11-15T20:00:00.000Z");
        assert_eq!(stamp_seconds(1_794_772_800).unwrap(), "2026-11-15T20:00:00Z");
        assert_eq!(parse_seconds("2026-11-15T20:00:00.999Z"), Some(1_794_772_800));
        assert_eq!(parse_seconds("yesterday"), None);
    }

    #[test]
    fn only_version_7_ids_contain_a_time() {
        let id = Uuid::now_v7().to_string();
        assert!((Timestamp::now().as_second() - id_time(&id).unwrap().as_second()).abs() <= 1);
        assert_eq!(id_time("6fa459ea-ee8a-4ca4-894e-db77e160355e"), None);
        assert_eq!(id_time("thr_9"), None);
    }

    #[test]
    fn local_names_round_trip() {
        let at = Timestamp::from_second(1_794_772_800).unwrap();
        let name = local(at).strftime("%Y-%m-%dT%H-%M-%S").to_string();
        assert_eq!(parse_local(&name), Some(at));
        assert_eq!(parse_local("2026-13-99T00-00-00"), None);
    }
}
