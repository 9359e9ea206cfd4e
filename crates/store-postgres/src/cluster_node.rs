//! The node of a server: registered when the server starts, and again whenever its lease was lost.
//!
//! Registering again frees the trees of the earlier run, so it waits until the server has ended their turns and commands.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use codicil_metrics::METRICS;
use codicil_store::LostRun;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
    time,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    error::{PostgresError, Result},
    held_trees::{HeldTrees, TreePlace, release_unused},
    node_lease::{LeaseTrust, NodeIdentity, NodeLease, NodeSettings},
    store::PostgresStore,
};

/// The place of threads that use no files and commands. Every node reaches it.
pub(crate) const ANYWHERE: &str = "*";

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
    _releases: AbortOnDropHandle<()>,
}

struct NodeState {
    /// `None` from the loss of the lease until the node has registered again.
    run: Mutex<Option<CurrentRun>>,
    held: Arc<HeldTrees>,
    /// A loss that the server does not know yet.
    loss: Mutex<Option<LostRun>>,
    fenced: Notify,
    /// Whether the server gives its threads up when the lease is lost. Programs that run no turns do not.
    is_watched: AtomicBool,
}

#[derive(Clone)]
struct CurrentRun {
    identity: NodeIdentity,
    trust: Arc<LeaseTrust>,
}

impl CurrentRun {
    fn of(lease: &NodeLease) -> Self {
        Self { identity: lease.identity().clone(), trust: lease.trust() }
    }
}

impl ClusterNode {
    /// Registers the node. Waits a little while its name is taken by an earlier process.
    pub async fn register(store: Arc<PostgresStore>, settings: BackendSettings) -> Result<Self> {
        let BackendSettings { name, disk, url, places, ttl } = settings;
        let reachable = reachable_places(&disk, &places);
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
        let node = Self::new(store.clone(), disk, places);
        *node.state.run.lock() = Some(CurrentRun::of(&lease));
        let keeper =
            LeaseKeeper { store, settings, state: node.state.clone(), closing: node.closing.clone() };
        *node.keeper.lock() = Some(tokio::spawn(keeper.run(lease)));
        Ok(node)
    }

    /// Returns a process that is no node of the cluster. It cannot own threads.
    pub fn reader(store: Arc<PostgresStore>, settings: BackendSettings) -> Self {
        Self::new(store, settings.disk, settings.places)
    }

    fn new(store: Arc<PostgresStore>, disk: String, places: SharedPlaces) -> Self {
        let (held, unused) = HeldTrees::new();
        let releases = tokio::spawn(release_unused(store, Arc::downgrade(&held), unused));
        let state = NodeState {
            run: Mutex::new(None),
            held,
            loss: Mutex::default(),
            fenced: Notify::new(),
            is_watched: AtomicBool::new(false),
        };
        Self {
            state: Arc::new(state),
            disk,
            places,
            closing: CancellationToken::new(),
            keeper: Mutex::new(None),
            _releases: AbortOnDropHandle::new(releases),
        }
    }

    /// Returns the node and its run. Fails while the node has no lease.
    pub fn identity(&self) -> Result<NodeIdentity> {
        Ok(self.run()?.identity)
    }

    fn run(&self) -> Result<CurrentRun> {
        let run = self.state.run.lock().clone();
        run.ok_or_else(lease_lost)
    }

    /// Returns whether the node may start effects.
    pub fn may_act(&self) -> bool {
        self.state.run.lock().as_ref().is_some_and(|run| run.trust.may_act())
    }

    /// Waits for a write, but not longer than the node has its lease. Whether the write takes effect is unknown then.
    pub async fn while_held<T>(&self, write: impl Future<Output = Result<T>>) -> Result<T> {
        let run = self.run()?;
        tokio::select! {
            biased;
            written = write => written,
            () = run.trust.lost.cancelled() => Err(lease_lost()),
        }
    }

    /// Returns the trees that this node owns.
    pub fn held(&self) -> &Arc<HeldTrees> {
        &self.state.held
    }

    /// Returns where a place is for this node.
    pub fn tree_place(&self, place: String) -> TreePlace {
        if self.reaches(&place) { TreePlace::Here } else { TreePlace::Elsewhere(place) }
    }

    /// Returns where a new thread with this directory is.
    pub fn place_of(&self, cwd: &str) -> &str {
        self.places.of(cwd).unwrap_or(&self.disk)
    }

    /// Returns whether this node can reach a place.
    pub fn reaches(&self, place: &str) -> bool {
        place == self.disk || place == ANYWHERE || self.places.0.contains_key(place)
    }

    /// Returns the places that this node can reach.
    pub fn reachable(&self) -> Vec<String> {
        reachable_places(&self.disk, &self.places)
    }

    /// Waits until the lease was lost. The node registers again when the result is dropped.
    pub async fn fenced(&self) -> LostRun {
        self.state.is_watched.store(true, Ordering::Relaxed);
        self.state.fenced.notified().await;
        let loss = self.state.loss.lock().take();
        loss.unwrap_or_else(|| LostRun::new().0)
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

impl NodeState {
    /// Notes the loss of all trees, and tells the server. The receiver fails when the server has given them up.
    fn lose_lease(&self) -> oneshot::Receiver<()> {
        *self.run.lock() = None;
        for _ in 0..self.held.clear() {
            METRICS.leases_lost.inc();
        }
        let (loss, given_up) = LostRun::new();
        if self.is_watched.load(Ordering::Relaxed) {
            *self.loss.lock() = Some(loss);
        }
        self.fenced.notify_one();
        given_up
    }
}

fn lease_lost() -> PostgresError {
    PostgresError::Unavailable("this node has lost its lease and registers again".into())
}

fn reachable_places(disk: &str, places: &SharedPlaces) -> Vec<String> {
    let always = [disk.to_owned(), ANYWHERE.to_owned()];
    places.0.keys().cloned().chain(always).collect()
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
                    *self.state.run.lock() = None;
                    if let Err(error) = lease.release().await {
                        tracing::warn!("failed to release the threads of this node: {error}");
                    }
                    return;
                }
                () = lease.lost() => {}
            }
            let given_up = self.state.lose_lease();
            tracing::error!(
                node = self.settings.name,
                "this node has lost its lease and gives up its threads"
            );
            tokio::select! {
                () = self.closing.cancelled() => return,
                // Fails when the server has ended the turns and commands.
                _ = given_up => {}
            }
            let Some(registered) = self.register_again(lease).await else { return };
            *self.state.run.lock() = Some(CurrentRun::of(&registered));
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
