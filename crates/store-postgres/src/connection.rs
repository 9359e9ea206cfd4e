//! Connections to the database: one for appends, one for renewals, and a few for everything else.

use std::time::Duration;

use codicil_metrics::METRICS;
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{self, Instant},
};
use tokio_postgres::{
    Client, Row,
    types::{FromSql, ToSql, Type},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    address::DatabaseAddress,
    error::{PostgresError, Result},
};

/// The maximum time of a statement. Lists and reads of long threads are done in pages.
const STATEMENT_TIME: Duration = Duration::from_secs(30);
/// The time for which a statement is repeated while the database is not available.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay before a statement is repeated. It is doubled each time up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A value of a statement and its type. Stating types spares the round trip that asks the server for them.
pub type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// One connection, which ends when this is dropped.
pub(crate) struct DatabaseConnection {
    client: Client,
    _task: AbortOnDropHandle<()>,
}

impl DatabaseConnection {
    pub async fn open(address: &DatabaseAddress) -> Result<Self> {
        let connecting = time::timeout(STATEMENT_TIME, address.config.connect(address.tls.clone()));
        let (client, connection) = match connecting.await {
            Err(_) => return Err(PostgresError::Unavailable("connecting took too long".into())),
            Ok(connected) => {
                connected.map_err(|error| PostgresError::of("connect to the database", error))?
            }
        };
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection to the database has ended: {error}");
            }
        });
        Ok(Self { client, _task: AbortOnDropHandle::new(task) })
    }

    /// Runs one statement. After an error that says `Unavailable` the connection must not be used again: the statement may
    /// still be running.
    pub async fn query(&self, action: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let started = Instant::now();
        let result = match time::timeout(STATEMENT_TIME, self.client.query_typed(sql, values)).await {
            Err(_) => Err(PostgresError::Unavailable("a statement took too long".into())),
            Ok(result) => result.map_err(|error| PostgresError::of(action, error)),
        };
        METRICS.database_seconds.observe(started.elapsed());
        if result.is_err() {
            METRICS.database_failures.inc();
        }
        result
    }

    /// Runs statements without values.
    pub async fn execute_script(&self, action: &'static str, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(|error| PostgresError::of(action, error))
    }

    pub fn is_open(&self) -> bool {
        !self.client.is_closed()
    }
}

/// Reads a column of a row.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T> {
    row.try_get(name).map_err(|source| PostgresError::Refused { action: "read a row", source })
}

/// The result of a statement that was repeated until the database answered.
pub(crate) struct PoolAnswer {
    pub rows: Vec<Row>,
    /// Whether an earlier attempt may have taken effect.
    pub is_repeated: bool,
}

/// A bounded number of connections, opened when they are needed.
pub(crate) struct ConnectionPool {
    address: DatabaseAddress,
    permits: Semaphore,
    idle: Mutex<Vec<DatabaseConnection>>,
}

impl ConnectionPool {
    pub fn new(address: DatabaseAddress, connections: usize) -> Self {
        Self { address, permits: Semaphore::new(connections), idle: Mutex::default() }
    }

    pub fn address(&self) -> &DatabaseAddress {
        &self.address
    }

    /// Runs a statement that is safe to repeat, and repeats it for a while if the database is not available.
    pub async fn query(&self, action: &'static str, sql: &str, values: &[Value<'_>]) -> Result<PoolAnswer> {
        let mut retries = RetryPauses::new(PATIENCE);
        let mut is_repeated = false;
        loop {
            match self.query_once(action, sql, values).await {
                Err(error) if error.is_unavailable() => retries.pause(error).await?,
                result => return result.map(|rows| PoolAnswer { rows, is_repeated }),
            }
            is_repeated = true;
        }
    }

    /// Runs a statement. A connection that failed is closed.
    pub async fn query_once(
        &self,
        action: &'static str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>> {
        let _permit = self.permits.acquire().await.map_err(|_| PostgresError::Closed)?;
        let idle = self.take_idle();
        let connection = match idle {
            Some(connection) => connection,
            None => DatabaseConnection::open(&self.address).await?,
        };
        let result = connection.query(action, sql, values).await;
        if !result.as_ref().is_err_and(PostgresError::is_unavailable) {
            self.idle.lock().push(connection);
        }
        result
    }

    fn take_idle(&self) -> Option<DatabaseConnection> {
        let mut idle = self.idle.lock();
        idle.retain(DatabaseConnection::is_open);
        idle.pop()
    }
}

/// The pauses between attempts to reach the database.
pub(crate) struct RetryPauses {
    deadline: Instant,
    next: Duration,
}

impl RetryPauses {
    pub fn new(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, next: FIRST_PAUSE }
    }

    /// Waits before the next attempt. Returns the error if there is no time left.
    pub async fn pause(&mut self, error: PostgresError) -> Result<()> {
        if Instant::now() + self.next >= self.deadline {
            return Err(error);
        }
        time::sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}
