//! What was found in each root, until somebody says that it changed.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::scan::{RootScan, SkillRoot, scan};

/// How many roots are remembered. With more it is cheaper to look again than to remember.
const MAX_ROOTS: usize = 4096;

/// Whether what is remembered will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheFreshness {
    Remembered,
    Reread,
}

#[derive(Default)]
pub(crate) struct SkillCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    /// Counts up when everything is forgotten; what was read before that is not kept.
    generation: u64,
    scans: HashMap<SkillRoot, Arc<RootScan>>,
}

impl SkillCache {
    /// Blocks on the disk unless the answer is known.
    pub fn get(&self, root: &SkillRoot, freshness: CacheFreshness) -> Arc<RootScan> {
        let generation = {
            let state = self.lock();
            if let (CacheFreshness::Remembered, Some(known)) = (freshness, state.scans.get(root)) {
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

    /// What is known, without looking.
    pub fn peek(&self, root: &SkillRoot) -> Option<Arc<RootScan>> {
        self.lock().scans.get(root).cloned()
    }

    pub fn forget_all(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.scans.clear();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock()
    }
}
