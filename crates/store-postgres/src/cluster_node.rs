//! The node of a server: registered when the server starts, and again whenever its lease was lost.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use codicil_metrics::METRICS;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle, time};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    error::{PostgresError, Result},
    node_lease::{NodeIdentity, NodeLease, NodeSettings},
    store::PostgresStore,
};

/// The time between two attempts to register.
const REGISTER_PAUSE: Duration = Duration::from_millis(500);
/// The time that a name may be taken when a server starts, because its earlier process was killed.
const NAME_TIME: Duration = Duration::from_secs(10);

/// How a server takes part.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    pub name: String,
    /// The name of the place of workspaces that are on no shared volume.
    pub disk: String,
    /// Where other nodes and clients reach it.
    pub url: String,
    pub places: SharedPlaces,
    /// The time after which others may take over if the lease is not renewed.
    pub ttl: Duration,
}

/// The volumes that several nodes can reach, by their names, with their paths on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPlaces(pub BTreeMap<String, String>);

impl SharedPlaces {
    /// Returns the volume that contains a directory.
    fn of(&self, cwd: &str) -> Option<&str> {
        let contains = |path: &&String| Path::new(cwd).starts_with(path.as_str());
        let found = self.0.iter().filter(|(_, path)| contains(path)).max_by_key(|(_, path)| path.len());
        found.map(|(name, _)| name.as_str())
    }
}

/// The node of this server.
pub(crate) struct ClusterNode {
    state: Arc<NodeState>,
    disk: String,
    places: SharedPlaces,
    closing: CancellationToken,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

struct NodeState {
    /// `None` from the loss of the lease until the node has registered again.
    identity: Mutex<Option<NodeIdentity>>,
    /// The roots of the trees that this node owns, for the metrics.
    held: Mutex<HashSet<Uuid>>,
    fenced: Notify,
}

impl ClusterNode {
    /// Registers the node. Waits a little while its name is taken by an earlier process.
    pub async fn register(store: Arc<PostgresStore>, settings: BackendSettings) -> Result<Self> {
        let BackendSettings { name, disk, url, places, ttl } = settings;
        let reachable = places.0.keys().cloned().chain([disk.clone()]).collect();
        let settings = NodeSettings { name, url, places: reachable, ttl };
        let deadline = time::Instant::now() + ttl.max(NAME_TIME);
        let lease = loop {
            match NodeLease::register(&store, settings.clone()).await {
                Err(PostgresError::NameInUse { .. }) if time::Instant::now() < deadline => {
                    time::sleep(REGISTER_PAUSE).await;
                }
                lease => break lease?,
            }
        };
        let state = Arc::new(NodeState {
            identity: Mutex::new(Some(lease.identity().clone())),
            held: Mutex::default(),
            fenced: Notify::new(),
        });
        let closing = CancellationToken::new();
        let keeper = LeaseKeeper { store, settings, state: state.clone(), closing: closing.clone() };
        let keeper = Mutex::new(Some(tokio::spawn(keeper.run(lease))));
        Ok(Self { state, disk, places, closing, keeper })
    }

    /// Returns the node and its run. Fails while the node has no lease.
    pub fn identity(&self) -> Result<NodeIdentity> {
        let identity = self.state.identity.lock().clone();
        identity.ok_or(PostgresError::Unavailable("this node has lost its lease and registers again".into()))
    }

    /// Notes that this node owns a tree.
    pub fn note_held(&self, root: Uuid) {
        let mut held = self.state.held.lock();
        held.insert(root);
        METRICS.leases_held.set(held.len());
    }

    /// Notes that a tree is gone, or belongs to another node.
    pub fn note_gone(&self, root: Uuid) {
        let mut held = self.state.held.lock();
        held.remove(&root);
        METRICS.leases_held.set(held.len());
    }

    /// Returns where a new thread with this directory is.
    pub fn place_of(&self, cwd: &str) -> &str {
        self.places.of(cwd).unwrap_or(&self.disk)
    }

    /// Returns whether this node can reach a place.
    pub fn reaches(&self, place: &str) -> bool {
        place == self.disk || self.places.0.contains_key(place)
    }

    /// Returns the places that this node can reach.
    pub fn reachable(&self) -> Vec<String> {
        self.places.0.keys().cloned().chain([self.disk.clone()]).collect()
    }

    /// Waits until the lease was lost.
    pub async fn fenced(&self) {
        self.state.fenced.notified().await;
    }

    /// Ends the run, so that others can take its threads at once.
    pub async fn close(&self) {
        self.closing.cancel();
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            let _ = keeper.await;
        }
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// The task that owns the lease.
struct LeaseKeeper {
    store: Arc<PostgresStore>,
    settings: NodeSettings,
    state: Arc<NodeState>,
    closing: CancellationToken,
}

impl LeaseKeeper {
    async fn run(self, mut lease: NodeLease) {
        loop {
            tokio::select! {
                () = self.closing.cancelled() => {
                    *self.state.identity.lock() = None;
                    if let Err(error) = lease.release().await {
                        tracing::warn!("failed to release the threads of this node: {error}");
                    }
                    return;
                }
                () = lease.lost() => {}
            }
            *self.state.identity.lock() = None;
            let lost = std::mem::take(&mut *self.state.held.lock());
            lost.iter().for_each(|_| METRICS.leases_lost.inc());
            METRICS.leases_held.set(0);
            tracing::error!(
                node = self.settings.name,
                "this node has lost its lease and gives up its threads"
            );
            self.state.fenced.notify_one();
            let Some(registered) = self.register_again(lease).await else { return };
            *self.state.identity.lock() = Some(registered.identity().clone());
            tracing::info!(node = self.settings.name, "this node has registered again");
            lease = registered;
        }
    }

    /// Registers under a new run, however long it takes. `None` if the server ends first.
    async fn register_again(&self, lost: NodeLease) -> Option<NodeLease> {
        let mut attempt = lost.register_again().await;
        loop {
            match attempt {
                Ok(lease) => return Some(lease),
                Err(error) => tracing::warn!("failed to register the node again: {error}"),
            }
            tokio::select! {
                () = self.closing.cancelled() => return None,
                () = time::sleep(REGISTER_PAUSE) => {}
            }
            attempt = NodeLease::register(&self.store, self.settings.clone()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_volume_contains_a_directory() {
        let volumes = [("all", "/srv"), ("code", "/srv/code")];
        let places = SharedPlaces(volumes.map(|(name, path)| (name.to_owned(), path.to_owned())).into());
        assert_eq!(places.of("/srv/code/app"), Some("code"));
        assert_eq!(places.of("/srv/coders"), Some("all"));
        assert_eq!(places.of("/home/me"), None);
    }
}
