//! The store: connections, the queue of appends, and the tables they need.

use std::sync::Arc;

use crate::{
    address::DatabaseAddress, append_queue::AppendQueue, append_statement::LineBatch,
    connection::ConnectionPool, error::Result, migrations, request_keys::RequestKeys,
};

/// The number of connections for everything but appends and renewals.
const CONNECTIONS: usize = 4;

/// Threads in one database. Dropping it ends its connections.
pub struct PostgresStore {
    pub(crate) pool: Arc<ConnectionPool>,
    pub(crate) keys: RequestKeys,
    appends: AppendQueue,
}

impl PostgresStore {
    /// Connects to a database, and creates or updates its tables.
    pub async fn open(address: DatabaseAddress) -> Result<Self> {
        migrations::apply(&address).await?;
        Ok(Self::with_tables(address))
    }

    /// Connects to a database without changing its tables. Fails with `TooOld` if they have to be updated.
    pub async fn open_unchanged(address: DatabaseAddress) -> Result<Self> {
        migrations::check(&address).await?;
        Ok(Self::with_tables(address))
    }

    fn with_tables(address: DatabaseAddress) -> Self {
        let appends = AppendQueue::start(address.clone());
        let pool = Arc::new(ConnectionPool::new(address, CONNECTIONS));
        Self { keys: RequestKeys::start(pool.clone()), pool, appends }
    }

    /// Appends lines to a thread. When this returns, they are committed. Appends of other threads that wait meanwhile share
    /// the next commit. Fails with `Overtaken` if another node has taken the thread's tree.
    ///
    /// Once called, a batch is written even if the caller stops waiting. Callers wait for each append to a thread before the
    /// next, and read the thread again after `Unavailable`.
    pub async fn append(&self, batch: LineBatch) -> Result<()> {
        self.appends.append(batch).await
    }
}
