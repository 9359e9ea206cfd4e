//! Watching skill files while threads work beside them.
//!
//! A thread holds a [`SkillWatch`] for its directory. One task for the process follows the folders of all
//! of them: those that were looked through, and for a root that is not there yet the nearest folder above
//! it. When something happened it waits until it is quiet, looks again, and tells of it only if what it
//! finds is different. So a file that somebody touches, or a folder that has nothing to do with skills,
//! makes no noise.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::{AbortHandle, spawn_blocking},
    time::Instant,
};

use super::{
    SkillsInner,
    cache::CacheFreshness,
    eyes::{SkillWatcher, WatchTargets},
    scan::{RootScan, SkillRoot},
};

/// How long nothing must happen before it is looked at.
const QUIET: Duration = Duration::from_millis(150);
/// How long it may go on before it is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many directories are followed; threads in others see changes when they look themselves.
const MAX_DIRECTORIES: usize = 256;

/// Keeps the skills of a directory under observation for as long as it lives.
#[derive(Debug)]
pub struct SkillWatch {
    cwd: PathBuf,
    shared: Arc<WatchShared>,
}

impl SkillWatch {
    /// The directory it is for.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }
}

impl Drop for SkillWatch {
    fn drop(&mut self) {
        let mut wanted = self.shared.lock();
        let Some(entry) = wanted.get_mut(&self.cwd) else { return };
        entry.holders -= 1;
        if entry.holders == 0 {
            wanted.remove(&self.cwd);
            self.shared.wake.notify_one();
        }
    }
}

/// What the holders of watches and the task share.
#[derive(Debug, Default)]
struct WatchShared {
    wanted: Mutex<BTreeMap<PathBuf, WantedFolders>>,
    wake: Notify,
    /// Something happened in a folder that is followed.
    stirred: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct WantedFolders {
    holders: usize,
    is_followed: bool,
}

impl WatchShared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, WantedFolders>> {
        self.wanted.lock()
    }

    fn stir(&self) {
        self.stirred.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// The watches of a process. Its task starts with the first one and ends with this.
#[derive(Debug, Default)]
pub(crate) struct SkillWatches {
    shared: Arc<WatchShared>,
    task: Mutex<Option<AbortHandle>>,
}

impl SkillWatches {
    /// Posts the wish; the looking is done elsewhere.
    pub fn begin(&self, cwd: &Path, inner: &Arc<SkillsInner>) -> SkillWatch {
        let watch = SkillWatch { cwd: cwd.to_owned(), shared: self.shared.clone() };
        let is_new = {
            let mut wanted = self.shared.lock();
            let entry = wanted.entry(watch.cwd.clone()).or_default();
            entry.holders += 1;
            entry.holders == 1
        };
        if is_new {
            self.start(inner);
            self.shared.wake.notify_one();
        }
        watch
    }

    /// Whether changes in this directory will be noticed.
    pub fn follows(&self, cwd: &Path) -> bool {
        self.shared.lock().get(cwd).is_some_and(|wanted| wanted.is_followed)
    }

    fn start(&self, inner: &Arc<SkillsInner>) {
        let mut task = self.task.lock();
        // Without a runtime there is nobody to tell either.
        if let (None, Ok(runtime)) = (&*task, Handle::try_current()) {
            let run = run(Arc::downgrade(inner), self.shared.clone());
            *task = Some(runtime.spawn(run).abort_handle());
        }
    }
}

impl Drop for SkillWatches {
    fn drop(&mut self) {
        let task = self.task.get_mut();
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

async fn run(inner: Weak<SkillsInner>, shared: Arc<WatchShared>) {
    let mut state = Some(FollowedFolders::default());
    loop {
        shared.wake.notified().await;
        let reread = settle(&shared).await;
        let Some(followed) = state.take() else { return };
        let (inner, shared) = (inner.clone(), shared.clone());
        match spawn_blocking(move || followed.look_again(&inner, &shared, reread)).await {
            Ok(next) => state = next,
            Err(error) => return tracing::error!("skills are no longer watched: {error}"),
        }
    }
}

/// Waits until nothing has happened for a while. What was found before holds if nothing did at all.
async fn settle(shared: &WatchShared) -> RereadScope {
    let until = Instant::now() + PATIENCE;
    let mut reread = RereadScope::New;
    while shared.stirred.swap(false, Ordering::AcqRel) {
        reread = RereadScope::All;
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(QUIET).await;
    }
    reread
}

/// Which folders have to be looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RereadScope {
    /// Those that were not followed until now.
    New,
    All,
}

/// What is followed now, and what was found there.
#[derive(Default)]
struct FollowedFolders {
    eyes: Option<SkillWatcher>,
    /// The system does not let us watch; asking again would only fill the log.
    is_blind: bool,
    found: HashMap<SkillRoot, Arc<RootScan>>,
}

impl FollowedFolders {
    /// Looks at every directory, follows what it finds, and tells what changed. `None` when the server is
    /// gone. Blocks.
    fn look_again(
        mut self,
        inner: &Weak<SkillsInner>,
        shared: &Arc<WatchShared>,
        reread: RereadScope,
    ) -> Option<Self> {
        let inner = inner.upgrade()?;
        let directories: Vec<_> = shared.lock().keys().take(MAX_DIRECTORIES).cloned().collect();
        if directories.is_empty() {
            return Some(Self::default());
        }
        let before = std::mem::take(&mut self.found);
        let mut sights = WatchTargets::default();
        let mut is_changed = false;
        let roots: BTreeSet<_> = directories.iter().flat_map(|cwd| inner.followed_roots(cwd)).collect();
        for root in roots {
            let known = before.get(&root);
            let now = match known {
                Some(known) if reread == RereadScope::New => known.clone(),
                known => {
                    // What was listed before counts too: somebody has seen it.
                    let then = known.cloned().or_else(|| inner.cache.peek(&root));
                    let now = inner.cache.get(&root, CacheFreshness::Reread);
                    is_changed |= then.is_some_and(|then| !then.is_like(&now));
                    now
                }
            };
            sights.add(&root.path, &now);
            self.found.insert(root, now);
        }
        let has_grown = self.follow(sights, shared);
        if is_changed {
            (inner.on_change)();
        }
        for cwd in &directories {
            if let Some(wanted) = shared.lock().get_mut(cwd) {
                wanted.is_followed = self.eyes.is_some();
            }
        }
        // What changed between looking and following has been seen by nobody.
        if has_grown {
            shared.stir();
        }
        Some(self)
    }

    /// True when folders are followed that were not before.
    fn follow(&mut self, sights: WatchTargets, shared: &Arc<WatchShared>) -> bool {
        if self.eyes.is_none() && !self.is_blind {
            let told = shared.clone();
            let opened = SkillWatcher::open(move || told.stir());
            self.eyes =
                opened.inspect_err(|error| tracing::warn!("skill files cannot be watched: {error}")).ok();
            self.is_blind = self.eyes.is_none();
        }
        self.eyes.as_mut().is_some_and(|eyes| eyes.follow(sights))
    }
}

impl WatchTargets {
    /// The folders of one root: those it has, or the way to it.
    pub(super) fn add(&mut self, root: &Path, scan: &RootScan) {
        if scan.folders.is_empty() {
            self.await_root(root);
        } else {
            self.folders.extend(scan.folders.iter().cloned());
        }
    }

    fn await_root(&mut self, root: &Path) {
        let mut missing = BTreeSet::new();
        for folder in root.ancestors() {
            if folder.is_dir() {
                self.awaited.extend(missing);
                self.above.insert(folder.to_owned());
                return;
            }
            missing.insert(folder.to_owned());
        }
    }
}
