//! The connections of a process. Threads with the same configuration of a server share its connection, which
//! closes when the last of them releases it.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use codicil_exec::{ProcessEnvironment, inherited_environment};
use codicil_model::AccountAuth;
use codicil_protocol::{Secret, Tool};
use futures_util::future::join_all;
use parking_lot::Mutex;

use crate::{
    config::{ServerConfig, ServerTable, ServerTransport},
    connection::{ConnectionContext, ServerConnection},
    oauth::{ChallengeRecord, CredentialsFile},
    server_slot::ServerSlot,
    service::ClientIdentity,
    start_error::StartError,
    thread::{StartupObserver, ThreadServers},
};

/// The settings of a pool.
#[derive(Clone)]
pub struct PoolOptions {
    /// Directory of the credentials file.
    pub home: PathBuf,
    pub identity: ClientIdentity,
    /// Source of the servers' environment variables.
    pub environment: ProcessEnvironment,
    /// The account whose token the server of its apps gets.
    pub account: Option<Arc<dyn AccountAuth>>,
}

/// Omits the environment, which holds secrets.
impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("home", &self.home)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// The connections of a process. Clones share the pool.
#[derive(Clone)]
pub struct ServerPool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    context: Arc<ConnectionContext>,
    slots: Mutex<HashMap<ConnectionKey, Weak<ServerSlot>>>,
    /// Number of configuration reloads.
    generation: AtomicU64,
}

/// The key by which threads share a connection.
#[derive(PartialEq, Eq, Hash)]
struct ConnectionKey {
    name: String,
    transport: ServerTransport,
}

impl PoolOptions {
    /// Creates options with the environment of this process.
    pub fn new(home: impl Into<PathBuf>, identity: ClientIdentity) -> PoolOptions {
        PoolOptions { home: home.into(), identity, environment: inherited_environment(), account: None }
    }
}

impl ServerPool {
    /// Creates an empty pool. Servers start when a thread joins.
    pub fn new(options: PoolOptions) -> ServerPool {
        let context = ConnectionContext {
            identity: options.identity,
            environment: options.environment,
            account: options.account,
            credentials: CredentialsFile::in_home(&options.home),
            challenges: Arc::default(),
        };
        ServerPool {
            inner: Arc::new(PoolInner {
                context: Arc::new(context),
                slots: Mutex::default(),
                generation: AtomicU64::new(0),
            }),
        }
    }

    /// Starts the servers of a thread, without waiting for them.
    ///
    /// Must be called within a tokio runtime.
    pub fn join(&self, table: &ServerTable, observer: StartupObserver) -> ThreadServers {
        ThreadServers::new(self.clone(), table, observer)
    }

    /// Connects to a server, lists its tools and disconnects. Threads do not share this connection.
    pub async fn list_tools(&self, name: &str, config: &ServerConfig) -> Result<Arc<[Tool]>, StartError> {
        Ok(self.connect(name, config).await?.tools().await)
    }

    /// Connects to a server, beside the connection that threads share.
    pub(crate) async fn connect(
        &self,
        name: &str,
        config: &ServerConfig,
    ) -> Result<ServerConnection, StartError> {
        ServerConnection::start(name, config, &self.inner.context).await
    }

    /// Marks the configuration of all threads as out of date: see [`ThreadServers::is_stale`].
    pub fn reload(&self) {
        self.inner.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes all connections and waits a few seconds at most for the servers to end.
    pub async fn shutdown(&self) {
        let slots: Vec<Arc<ServerSlot>> =
            self.inner.slots.lock().values().filter_map(Weak::upgrade).collect();
        join_all(slots.iter().map(|slot| slot.close())).await;
    }

    pub(crate) fn identity(&self) -> &ClientIdentity {
        &self.inner.context.identity
    }

    pub(crate) fn credentials(&self) -> &CredentialsFile {
        &self.inner.context.credentials
    }

    /// Returns a secret from the environment; `None` if the variable is unset or empty.
    pub(crate) fn secret_variable(&self, name: &str) -> Option<Secret> {
        let value = self.inner.context.environment.get(OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then(|| Secret::from(value.to_owned()))
    }

    pub(crate) fn challenges(&self) -> &ChallengeRecord {
        &self.inner.context.challenges
    }

    /// Makes the next start of a failed server count as its first.
    pub(crate) fn reset_failure(&self, name: &str) {
        let slots: Vec<Arc<ServerSlot>> = self
            .inner
            .slots
            .lock()
            .iter()
            .filter(|(key, _)| key.name == name)
            .filter_map(|(_, slot)| slot.upgrade())
            .collect();
        slots.iter().for_each(|slot| slot.reset_failure());
    }

    pub(crate) fn generation(&self) -> u64 {
        self.inner.generation.load(Ordering::Relaxed)
    }

    /// Returns the slot of a server, creating it if no thread holds it.
    pub(crate) fn slot(&self, name: &str, config: &Arc<ServerConfig>) -> Arc<ServerSlot> {
        let key = ConnectionKey { name: name.to_owned(), transport: config.transport.clone() };
        let mut slots = self.inner.slots.lock();
        if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = ServerSlot::new(name, config.clone(), self.inner.context.clone());
        slots.insert(key, Arc::downgrade(&slot));
        slot
    }
}
