//! A look at a database that changes nothing, for `codicil doctor`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{
    address::DatabaseAddress,
    connection::{DatabaseConnection, column},
    error::Result,
    migrations,
};

/// The number of round trips that are measured. The fastest counts: the others have waited for something else.
const ROUND_TRIPS: usize = 5;

/// The oldest version of PostgreSQL that is supported, as `server_version_num` says it.
const OLDEST_VERSION: i32 = 140_000;

const ACTION: &str = "look at the database";

/// What a database says about itself.
#[derive(Clone, Debug)]
pub struct DatabaseDiagnosis {
    /// The version of PostgreSQL, such as "16.4".
    pub version: String,
    pub is_version_supported: bool,
    /// The number of the last migration that was applied; 0 if there are no tables.
    pub applied_migration: i32,
    /// The number of the last migration that this program has.
    pub known_migration: i32,
    /// The time of the fastest of a few statements.
    pub round_trip: Duration,
    /// How far the clock of the database is from that of this machine, in either direction.
    pub clock_difference: Duration,
}

impl DatabaseAddress {
    /// Connects and reads what the database says about itself.
    pub async fn diagnose(&self) -> Result<DatabaseDiagnosis> {
        let connection = DatabaseConnection::open(self).await?;
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let sent = Instant::now();
            connection.query(ACTION, "select 1", &[]).await?;
            round_trip = round_trip.min(sent.elapsed());
        }
        let facts = "select current_setting('server_version') as version,
            current_setting('server_version_num')::integer as number,
            extract(epoch from clock_timestamp())::double precision as clock";
        let asked = SystemTime::now();
        let rows = connection.query(ACTION, facts, &[]).await?;
        let row = rows.first();
        let version: Option<String> = row.map(|row| column(row, "version")).transpose()?;
        let number: Option<i32> = row.map(|row| column(row, "number")).transpose()?;
        let clock: Option<f64> = row.map(|row| column(row, "clock")).transpose()?;
        Ok(DatabaseDiagnosis {
            version: version.unwrap_or_default(),
            is_version_supported: number.is_some_and(|number| number >= OLDEST_VERSION),
            applied_migration: migrations::applied(&connection).await?,
            known_migration: migrations::last_known(),
            round_trip,
            clock_difference: clock_difference(clock.unwrap_or_default(), asked + round_trip / 2),
        })
    }
}

/// Returns how far a clock in Unix seconds is from a time.
fn clock_difference(clock: f64, time: SystemTime) -> Duration {
    let own = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    Duration::try_from_secs_f64((clock - own).abs()).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_in_either_direction() {
        let time = UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(clock_difference(1000.5, time), Duration::from_millis(500));
        assert_eq!(clock_difference(998.0, time), Duration::from_secs(2));
        assert_eq!(clock_difference(f64::NAN, time), Duration::MAX);
    }
}
