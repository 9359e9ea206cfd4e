//! What `codicil doctor` learns of a database, without changing it.

use std::time::Duration;

use codicil_store_postgres::DatabaseAddress;

use crate::database::TestDatabase;

#[tokio::test]
async fn a_database_is_looked_at_before_and_after_its_tables_exist() {
    let Some(database) = TestDatabase::create().await else { return };
    let address = DatabaseAddress::parse(&database.address()).unwrap();
    let empty = address.diagnose().await.unwrap();
    assert_eq!(empty.applied_migration, 0);
    assert!(empty.known_migration > 0);
    // The database runs on this machine, so the clocks are the same.
    assert!(empty.clock_difference < Duration::from_secs(2), "{empty:?}");
    assert!(empty.round_trip < Duration::from_secs(2), "{empty:?}");
    assert!(empty.version.starts_with(|first: char| first.is_ascii_digit()), "{empty:?}");
    assert!(empty.is_version_supported, "{empty:?}");
    assert_eq!(address.diagnose().await.unwrap().applied_migration, 0, "looking creates no tables");

    database.open_store().await;
    let prepared = address.diagnose().await.unwrap();
    assert_eq!(prepared.applied_migration, prepared.known_migration);
}
