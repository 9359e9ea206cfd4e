//! The trees that this node owns, and how many logs of each are open. A tree without open logs is given up, so that the next
//! node that uses it need not ask this one.
//!
//! A claim can find this node as the owner just before the tree is given up. Its hold is refused then, and the claim is
//! repeated after the release.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use codicil_metrics::METRICS;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{lease::TreeLease, store::PostgresStore};

/// The maximum number of trees that a statement releases.
const MAX_RELEASES: usize = 256;

pub(crate) struct HeldTrees {
    state: Mutex<HeldState>,
    unused: mpsc::UnboundedSender<TreeLease>,
}

#[derive(Default)]
struct HeldState {
    trees: HashMap<Uuid, HeldTree>,
    /// Trees that are being released. The tokens are cancelled afterwards.
    releasing: HashMap<TreeLease, CancellationToken>,
}

struct HeldTree {
    lease: TreeLease,
    logs: usize,
    place: TreePlace,
}

/// Whether this node can run the turns of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreePlace {
    Here,
    /// The workspace is at this place, which the node cannot reach.
    Elsewhere(String),
}

/// An open log of a tree.
pub(crate) struct TreeHold {
    held: Weak<HeldTrees>,
    lease: TreeLease,
}

impl fmt::Debug for TreeHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TreeHold").field(&self.lease).finish()
    }
}

impl Drop for TreeHold {
    fn drop(&mut self) {
        if let Some(held) = self.held.upgrade() {
            held.drop_hold(self.lease);
        }
    }
}

impl HeldTrees {
    /// Returns the table, and the trees that are to be released.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<TreeLease>) {
        let (unused, released) = mpsc::unbounded_channel();
        (Arc::new(Self { state: Mutex::default(), unused }), released)
    }

    /// Notes an open log of a tree that was claimed. Fails while the tree is being released: the claim has to be repeated when
    /// the token is cancelled.
    pub fn hold(self: &Arc<Self>, lease: TreeLease, place: TreePlace) -> Result<TreeHold, CancellationToken> {
        let mut state = self.state.lock();
        if let Some(released) = state.releasing.get(&lease) {
            return Err(released.clone());
        }
        let tree =
            state.trees.entry(lease.root).or_insert(HeldTree { lease, logs: 0, place: TreePlace::Here });
        if tree.lease != lease {
            *tree = HeldTree { lease, logs: 0, place: TreePlace::Here };
        }
        tree.place = place;
        tree.logs += 1;
        METRICS.leases_held.set(state.trees.len());
        Ok(TreeHold { held: Arc::downgrade(self), lease })
    }

    fn drop_hold(&self, lease: TreeLease) {
        let mut state = self.state.lock();
        // A tree that was lost and taken again has another epoch.
        let Some(tree) = state.trees.get_mut(&lease.root).filter(|tree| tree.lease == lease) else { return };
        tree.logs = tree.logs.saturating_sub(1);
        if tree.logs > 0 {
            return;
        }
        state.trees.remove(&lease.root);
        state.releasing.insert(lease, CancellationToken::new());
        METRICS.leases_held.set(state.trees.len());
        // Fails when the node has ended its run, which frees everything.
        let _ = self.unused.send(lease);
    }

    /// Forgets a tree that is gone, or belongs to another node.
    pub fn forget(&self, root: Uuid) {
        let mut state = self.state.lock();
        state.trees.remove(&root);
        METRICS.leases_held.set(state.trees.len());
    }

    /// Forgets all trees. Returns how many there were.
    pub fn clear(&self) -> usize {
        let mut state = self.state.lock();
        let lost = std::mem::take(&mut state.trees).len();
        METRICS.leases_held.set(0);
        lost
    }

    /// Returns the trees whose workspace this node cannot reach, with their places.
    pub fn elsewhere(&self) -> Vec<(Uuid, String)> {
        let state = self.state.lock();
        let place = |tree: &HeldTree| match &tree.place {
            TreePlace::Here => None,
            TreePlace::Elsewhere(place) => Some((tree.lease.root, place.clone())),
        };
        state.trees.values().filter_map(place).collect()
    }

    fn released(&self, leases: &[TreeLease]) {
        let mut state = self.state.lock();
        let tokens = leases.iter().filter_map(|lease| state.releasing.remove(lease));
        tokens.for_each(|token| token.cancel());
    }
}

/// Releases trees that are not used any more, until the table is dropped.
pub(crate) async fn release_unused(
    store: Arc<PostgresStore>,
    held: Weak<HeldTrees>,
    mut unused: mpsc::UnboundedReceiver<TreeLease>,
) {
    let mut leases = Vec::new();
    while unused.recv_many(&mut leases, MAX_RELEASES).await > 0 {
        if let Err(error) = store.release_all(&leases).await {
            // They stay with this node, which takes them again when they are used.
            tracing::warn!("failed to release threads that are not used: {error}");
        }
        if let Some(held) = held.upgrade() {
            held.released(&leases);
        }
        leases.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Epoch;

    #[test]
    fn a_tree_is_released_with_its_last_log_and_held_anew_afterwards() {
        let (held, mut unused) = HeldTrees::new();
        let lease = TreeLease { root: Uuid::now_v7(), epoch: Epoch(1) };
        let first = held.hold(lease, TreePlace::Here).unwrap();
        let second = held.hold(lease, TreePlace::Here).unwrap();
        drop(first);
        assert!(unused.try_recv().is_err());
        drop(second);
        assert_eq!(unused.try_recv(), Ok(lease));
        // A claim that found the tree before its release has to be repeated.
        let released = held.hold(lease, TreePlace::Here).unwrap_err();
        held.released(&[lease]);
        assert!(released.is_cancelled());
        assert!(held.hold(lease, TreePlace::Here).is_ok());
    }

    #[test]
    fn the_hold_of_an_earlier_epoch_does_not_count() {
        let (held, mut unused) = HeldTrees::new();
        let first = TreeLease { root: Uuid::now_v7(), epoch: Epoch(1) };
        let old = held.hold(first, TreePlace::Here).unwrap();
        let next = TreeLease { epoch: Epoch(2), ..first };
        let _hold = held.hold(next, TreePlace::Elsewhere("a".to_owned())).unwrap();
        drop(old);
        assert!(unused.try_recv().is_err());
        assert_eq!(held.elsewhere(), [(first.root, "a".to_owned())]);
    }
}
