//! The check of the database, if threads are stored in one.

use std::{env, time::Duration};

use codicil_config::EffectiveConfig;
use codicil_store_postgres::{DatabaseAddress, DatabaseDiagnosis};
use tokio::time::timeout;

use super::{DoctorFinding, FindingStatus};
use crate::database::STORE_VARIABLE;

/// Maximum time to reach the database and to ask it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(15);

/// A round trip that is slower than this makes appends to threads slow.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(20);

/// A difference between clocks that makes times of threads confusing. Leases do not depend on clocks.
const CONFUSING_DIFFERENCE: Duration = Duration::from_secs(2);

/// Returns the address of the configured database: that of the variable, else that of `[codicil.store]`.
pub fn configured_url(config: Option<&EffectiveConfig>) -> Option<String> {
    let variable = env::var(STORE_VARIABLE).ok().filter(|url| !url.is_empty());
    let configured = || config?.value(&["codicil", "store", "url"])?.as_str().map(str::to_owned);
    // Threads in files are no database.
    variable.or_else(configured).filter(|url| url.starts_with("postgres"))
}

/// Checks a database: whether it can be reached, its version, its tables, its clock and its distance.
pub async fn database(url: &str) -> DoctorFinding {
    let looking = async { DatabaseAddress::parse(url)?.diagnose().await };
    match timeout(DATABASE_TIMEOUT, looking).await {
        Ok(Ok(diagnosis)) => finding(&diagnosis),
        // The texts of these errors contain no password.
        Ok(Err(error)) => DoctorFinding::new("database", FindingStatus::Error, error.to_string()),
        Err(_) => {
            let summary = format!("does not answer within {} seconds", DATABASE_TIMEOUT.as_secs());
            DoctorFinding::new("database", FindingStatus::Error, summary)
        }
    }
}

fn finding(diagnosis: &DatabaseDiagnosis) -> DoctorFinding {
    let DatabaseDiagnosis { version, round_trip, clock_difference, .. } = diagnosis;
    let mut status = FindingStatus::Ok;
    let mut details = Vec::new();
    let mut report = |found: FindingStatus, detail: String| {
        status = status.max(found);
        details.push(detail);
    };
    if !diagnosis.is_version_supported {
        report(FindingStatus::Error, "this version is too old: PostgreSQL 14 or newer is needed".to_owned());
    }
    let (applied, known) = (diagnosis.applied_migration, diagnosis.known_migration);
    match applied {
        _ if applied == known => {
            report(FindingStatus::Ok, format!("its tables are up to date (migration {known})"))
        }
        0 => report(FindingStatus::Warning, "it has no tables yet: the first server creates them".to_owned()),
        _ if applied < known => report(
            FindingStatus::Warning,
            format!("its tables are those of migration {applied} of {known}: the next server updates them"),
        ),
        _ => report(
            FindingStatus::Error,
            format!(
                "a later version of codicil has changed its tables (migration {applied}, known: {known})"
            ),
        ),
    }
    if *round_trip > SLOW_ROUND_TRIP {
        report(FindingStatus::Warning, "it is far away: each append to a thread waits for it".to_owned());
    }
    if *clock_difference > CONFUSING_DIFFERENCE {
        let seconds = clock_difference.as_secs_f64();
        report(
            FindingStatus::Warning,
            format!("its clock differs from that of this machine by {seconds:.1} s"),
        );
    }
    let milliseconds = round_trip.as_secs_f64() * 1000.0;
    let summary = format!("PostgreSQL {version} answers in {milliseconds:.1} ms");
    DoctorFinding::new("database", status, summary).with(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> DatabaseDiagnosis {
        DatabaseDiagnosis {
            version: "16.4".to_owned(),
            is_version_supported: true,
            applied_migration: 3,
            known_migration: 3,
            round_trip: Duration::from_micros(400),
            clock_difference: Duration::from_millis(1),
        }
    }

    fn check(diagnosis: &DatabaseDiagnosis, status: FindingStatus, detail: &str) {
        let found = finding(diagnosis);
        assert!(found.status == status, "{}", found.status.name());
        assert!(found.details.iter().any(|line| line.contains(detail)), "{:?}", found.details);
        assert_eq!(found.summary.split(" answers").next(), Some("PostgreSQL 16.4"));
    }

    #[test]
    fn each_fact_is_judged() {
        check(&sound(), FindingStatus::Ok, "up to date");
        check(
            &DatabaseDiagnosis { is_version_supported: false, ..sound() },
            FindingStatus::Error,
            "PostgreSQL 14 or newer",
        );
        check(
            &DatabaseDiagnosis { applied_migration: 0, ..sound() },
            FindingStatus::Warning,
            "no tables yet",
        );
        check(
            &DatabaseDiagnosis { applied_migration: 2, ..sound() },
            FindingStatus::Warning,
            "migration 2 of 3",
        );
        check(&DatabaseDiagnosis { applied_migration: 4, ..sound() }, FindingStatus::Error, "later version");
        let far = DatabaseDiagnosis { round_trip: Duration::from_millis(80), ..sound() };
        check(&far, FindingStatus::Warning, "far away");
        let wrong = DatabaseDiagnosis { clock_difference: Duration::from_secs(5), ..sound() };
        check(&wrong, FindingStatus::Warning, "5.0 s");
    }

    #[tokio::test]
    async fn an_unreachable_database_is_an_error_without_its_password() {
        let found = database("postgres://me:secret@127.0.0.1:1/x?sslmode=disable").await;
        assert!(found.status == FindingStatus::Error);
        assert!(found.summary.contains("not available"), "{}", found.summary);
        assert!(!found.summary.contains("secret"), "{}", found.summary);
        let found = database("postgres://me:secret@host/x?colour=red").await;
        assert!(!found.summary.contains("secret"), "{}", found.summary);
    }
}
