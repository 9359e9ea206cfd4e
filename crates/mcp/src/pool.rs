//! All connections of a process. Threads that configure a server alike share its connection; it ends when
//! the last of them lets go.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use codicil_exec::ProcessEnvironment;
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    config::{ServerConfig, ServerTable, ServerTransport},
    connection::ConnectionContext,
    oauth::CredentialsFile,
    service::ClientIdentity,
    slot::ServerSlot,
    thread::{StartupObserver, ThreadServers},
};

/// What a pool needs to know about its program.
#[derive(Clone)]
pub struct PoolOptions {
    /// Where credentials are kept.
    pub home: PathBuf,
    /// What servers are told about us.
    pub identity: ClientIdentity,
    /// What servers' variables are taken from.
    pub environment: ProcessEnvironment,
}

/// The environment is full of secrets.
impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("home", &self.home)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// The connections of a process. Clones are the same pool.
#[derive(Clone)]
pub struct ServerPool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    surroundings: Arc<ConnectionContext>,
    slots: Mutex<HashMap<ConnectionKey, Weak<ServerSlot>>>,
    /// How often the configuration was reloaded.
    generation: AtomicU64,
}

/// What threads share a connection by.
#[derive(PartialEq, Eq, Hash)]
struct ConnectionKey {
    name: String,
    transport: ServerTransport,
}

impl PoolOptions {
    /// With the environment of this process.
    pub fn new(home: impl Into<PathBuf>, identity: ClientIdentity) -> PoolOptions {
        PoolOptions { home: home.into(), identity, environment: std::env::vars_os().collect() }
    }
}

impl ServerPool {
    /// An empty pool. Nothing runs until a thread joins.
    pub fn new(options: PoolOptions) -> ServerPool {
        let surroundings = ConnectionContext {
            identity: options.identity,
            environment: options.environment,
            credentials: CredentialsFile::in_home(&options.home),
        };
        ServerPool {
            inner: Arc::new(PoolInner {
                surroundings: Arc::new(surroundings),
                slots: Mutex::default(),
                generation: AtomicU64::new(0),
            }),
        }
    }

    /// A thread's share. Its servers are being started when this returns; nothing is waited for.
    ///
    /// Has to be called within a runtime.
    pub fn join(&self, table: &ServerTable, observer: StartupObserver) -> ThreadServers {
        ThreadServers::new(self.clone(), table, observer)
    }

    /// Marks the configuration of all threads as out of date: see [`ThreadServers::is_stale`].
    pub fn reload(&self) {
        self.inner.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends all servers, and waits for a few seconds at most until they are gone.
    pub async fn shutdown(&self) {
        let slots: Vec<Arc<ServerSlot>> = self.slots().values().filter_map(Weak::upgrade).collect();
        join_all(slots.iter().map(|slot| slot.close())).await;
    }

    pub(crate) fn identity(&self) -> &ClientIdentity {
        &self.inner.surroundings.identity
    }

    pub(crate) fn credentials(&self) -> &CredentialsFile {
        &self.inner.surroundings.credentials
    }

    /// Lets failed starts of a server count as never tried.
    pub(crate) fn forgive(&self, name: &str) {
        let slots: Vec<Arc<ServerSlot>> = self
            .slots()
            .iter()
            .filter(|(key, _)| key.name == name)
            .filter_map(|(_, slot)| slot.upgrade())
            .collect();
        slots.iter().for_each(|slot| slot.forgive());
    }

    pub(crate) fn generation(&self) -> u64 {
        self.inner.generation.load(Ordering::Relaxed)
    }

    /// The place of a server, new if nobody holds it.
    pub(crate) fn slot(&self, name: &str, config: &Arc<ServerConfig>) -> Arc<ServerSlot> {
        let key = ConnectionKey { name: name.to_owned(), transport: config.transport.clone() };
        let mut slots = self.slots();
        if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = ServerSlot::new(name, config.clone(), self.inner.surroundings.clone());
        slots.insert(key, Arc::downgrade(&slot));
        slot
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ConnectionKey, Weak<ServerSlot>>> {
        self.inner.slots.lock()
    }
}
