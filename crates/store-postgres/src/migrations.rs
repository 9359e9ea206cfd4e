//! The tables of the database. Numbered files are applied once, in order, under a lock that ends with the transaction.

use tokio_postgres::types::Type;

use crate::{
    address::DatabaseAddress,
    connection::{DatabaseConnection, column},
    error::{PostgresError, Result},
};

struct Migration {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "threads", sql: include_str!("../migrations/0001_threads.sql") },
    Migration { number: 2, name: "nodes", sql: include_str!("../migrations/0002_nodes.sql") },
    Migration { number: 3, name: "keys", sql: include_str!("../migrations/0003_keys.sql") },
    Migration { number: 4, name: "facts", sql: include_str!("../migrations/0004_facts.sql") },
    Migration { number: 5, name: "search", sql: include_str!("../migrations/0005_search.sql") },
    Migration { number: 6, name: "append", sql: include_str!("../migrations/0006_append.sql") },
];

/// The key of the advisory lock: "codicil" as bytes.
const LOCK: i64 = 0x63_6f64_6963_696c;
const ACTION: &str = "prepare the tables of the database";

/// Applies the migrations that the database lacks. Nodes that start together wait for each other.
pub(crate) async fn apply(address: &DatabaseAddress) -> Result<()> {
    let connection = DatabaseConnection::open(address).await?;
    if is_current(applied(&connection).await?)? {
        return Ok(());
    }
    // A connection that is dropped before the commit takes everything back.
    connection.execute_script(ACTION, "begin").await?;
    connection.query(ACTION, "select pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    let table = "create table if not exists codicil_migration
        (number integer primary key, name text not null, applied_at timestamptz not null default now())";
    connection.execute_script(ACTION, table).await?;
    let found = applied(&connection).await?;
    if !is_current(found)? {
        for migration in MIGRATIONS.iter().filter(|migration| migration.number > found) {
            migration.apply(&connection).await?;
        }
    }
    connection.execute_script(ACTION, "commit").await
}

/// Fails unless the database has all migrations.
pub(crate) async fn check(address: &DatabaseAddress) -> Result<()> {
    let connection = DatabaseConnection::open(address).await?;
    let found = applied(&connection).await?;
    if is_current(found)? { Ok(()) } else { Err(PostgresError::TooOld { found, known: last_known() }) }
}

impl Migration {
    async fn apply(&self, connection: &DatabaseConnection) -> Result<()> {
        connection.execute_script(ACTION, self.sql).await?;
        let sql = "insert into codicil_migration (number, name) values ($1, $2)";
        connection.query(ACTION, sql, &[(&self.number, Type::INT4), (&self.name, Type::TEXT)]).await?;
        tracing::info!(number = self.number, name = self.name, "applied a migration to the database");
        Ok(())
    }
}

/// Returns the number of the last migration that was applied.
pub(crate) async fn applied(connection: &DatabaseConnection) -> Result<i32> {
    let table = "select from pg_class where oid = to_regclass('codicil_migration')";
    if connection.query(ACTION, table, &[]).await?.is_empty() {
        return Ok(0);
    }
    let last = "select coalesce(max(number), 0) as last from codicil_migration";
    connection.query(ACTION, last, &[]).await?.first().map_or(Ok(0), |row| column(row, "last"))
}

/// Returns the number of the last migration that this program has.
pub(crate) fn last_known() -> i32 {
    MIGRATIONS.last().map_or(0, |last| last.number)
}

fn is_current(found: i32) -> Result<bool> {
    let known = last_known();
    if found > known {
        return Err(PostgresError::TooNew { found, known });
    }
    Ok(found == known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps() {
        let numbers: Vec<_> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>());
    }
}
