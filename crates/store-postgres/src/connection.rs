//! Connections to the database: one for appends, one for renewals, and a few for everything else.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::{ClientConfig, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::{
    sync::Semaphore,
    time::{self, Instant},
};
use tokio_postgres::{
    Client, Config, Row,
    config::{SslMode, TargetSessionAttrs},
    types::{FromSql, ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use crate::error::{PostgresError, Result};

/// The maximum time to connect, unless the address says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The maximum time of a statement. Lists and reads of long threads are done in pages.
const STATEMENT_TIME: Duration = Duration::from_secs(30);
/// The time for which a statement is repeated while the database is not available.
const PATIENCE: Duration = Duration::from_secs(10);
/// The delay before a statement is repeated. It is doubled each time up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A value of a statement and its type. Stating types spares the round trip that asks the server for them.
pub type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// The address of a database, `postgres://user:password@host/database?sslmode=require`. Certificates are always verified
/// if TLS is used.
#[derive(Clone)]
pub struct DatabaseAddress {
    config: Config,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.config.get_hosts();
        f.debug_struct("DatabaseAddress").field("hosts", &hosts).finish_non_exhaustive()
    }
}

impl DatabaseAddress {
    pub fn parse(url: &str) -> Result<Self> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            PostgresError::InvalidAddress(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresError::InvalidAddress("it has no host".to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        if config.get_application_name().is_none() {
            config.application_name("codicil");
        }
        // Of several hosts, the one that accepts writes is used: after a failover that is another one.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.tcp_user_timeout(CONNECT_TIME);
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = match config.get_ssl_mode() {
            // Without TLS, nothing is verified, and the certificates of the system need not be there.
            SslMode::Disable => tls.with_root_certificates(rustls::RootCertStore::empty()),
            _ => tls.with_platform_verifier()?,
        };
        Ok(Self { config, tls: MakeRustlsConnect::new(tls.with_no_client_auth()) })
    }

    pub(crate) async fn connect(&self) -> Result<DatabaseConnection> {
        let connecting = time::timeout(STATEMENT_TIME, self.config.connect(self.tls.clone()));
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
        Ok(DatabaseConnection { client, _task: AbortOnDropHandle::new(task) })
    }
}

/// One connection, which ends when this is dropped.
pub(crate) struct DatabaseConnection {
    client: Client,
    _task: AbortOnDropHandle<()>,
}

impl DatabaseConnection {
    /// Runs one statement. After an error that says `Unavailable` the connection must not be used again: the statement may
    /// still be running.
    pub async fn query(&self, action: &'static str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        match time::timeout(STATEMENT_TIME, self.client.query_typed(sql, values)).await {
            Err(_) => Err(PostgresError::Unavailable("a statement took too long".into())),
            Ok(result) => result.map_err(|error| PostgresError::of(action, error)),
        }
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
            None => self.address.connect().await?,
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
