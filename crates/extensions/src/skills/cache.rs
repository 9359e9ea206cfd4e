//! Caches the skills found in each root, until a caller reports a change.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::scan::{RootScan, SkillRoot, scan};

/// Maximum number of cached roots. The cache is cleared when it is full.
const MAX_ROOTS: usize = 4096;

/// Whether a cached result may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheFreshness {
    Cached,
    Reread,
}

#[derive(Default)]
pub(crate) struct SkillCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    /// Incremented when the cache is cleared. A scan that began before that is not cached.
    generation: u64,
    scans: HashMap<SkillRoot, Arc<RootScan>>,
}

impl SkillCache {
    /// Returns the skills of a root. Blocks on the disk unless they are cached.
    pub fn get(&self, root: &SkillRoot, freshness: CacheFreshness) -> Arc<RootScan> {
        let generation = {
            let state = self.lock();
            if let (CacheFreshness::Cached, Some(known)) = (freshness, state.scans.get(root)) {
                return known.clone();
            }
            state.generation
        };
        let found = Arc::new(scan(root));
        let mut state = self.lock();
        if state.generation == generation {
            if state.scans.len() >= MAX_ROOTS {
                state.scans.clear();
            }
            state.scans.insert(root.clone(), found.clone());
        }
        found
    }

    /// Returns the cached skills of a root.
    pub fn peek(&self, root: &SkillRoot) -> Option<Arc<RootScan>> {
        self.lock().scans.get(root).cloned()
    }

    pub fn clear(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.scans.clear();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock()
    }
}
