//! Watches skill files while threads are loaded.
//!
//! A thread holds a [`SkillWatch`] for its directory. One task per process watches the folders of all of
//! them: the visited folders of each root, or the nearest existing folder above a root that does not exist
//! yet. After an event, the task waits until no more follow, searches the roots again, and reports a change
//! only if the skills differ. So a touched file, or an unrelated folder, is not reported.

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
    scan::{RootScan, SkillRoot},
    watcher::{SkillWatcher, WatchTargets},
};

/// Time without events before the roots are searched again.
const QUIET_TIME: Duration = Duration::from_millis(150);
/// Maximum time from the first event to the search.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of watched directories. Threads in other directories search anew each time.
const MAX_DIRECTORIES: usize = 256;

/// Watches the skills of a directory until it is dropped.
#[derive(Debug)]
pub struct SkillWatch {
    cwd: PathBuf,
    shared: Arc<WatchShared>,
}

impl SkillWatch {
    /// Returns the watched directory.
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

/// State shared by watches and the task.
#[derive(Debug, Default)]
struct WatchShared {
    wanted: Mutex<BTreeMap<PathBuf, WantedFolders>>,
    wake: Notify,
    /// Whether an event has arrived since the last search.
    has_event: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct WantedFolders {
    holders: usize,
    is_watched: bool,
}

impl WatchShared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, WantedFolders>> {
        self.wanted.lock()
    }

    fn on_event(&self) {
        self.has_event.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

/// The watches of a process. The task starts with the first watch and ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct SkillWatches {
    shared: Arc<WatchShared>,
    task: Mutex<Option<AbortHandle>>,
}

impl SkillWatches {
    /// Adds a watch. The task does the blocking work.
    pub fn watch(&self, cwd: &Path, inner: &Arc<SkillsInner>) -> SkillWatch {
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

    /// Searches all roots again, for example because there are others now.
    pub fn search_again(&self) {
        self.shared.on_event();
    }

    /// Returns whether changes in this directory are being watched.
    pub fn is_watched(&self, cwd: &Path) -> bool {
        self.shared.lock().get(cwd).is_some_and(|wanted| wanted.is_watched)
    }

    fn start(&self, inner: &Arc<SkillsInner>) {
        let mut task = self.task.lock();
        // Without a runtime there are no clients to notify.
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
    let mut state = Some(WatchedRoots::default());
    loop {
        shared.wake.notified().await;
        let reread = settle(&shared).await;
        let Some(folders) = state.take() else { return };
        let skills = inner.clone();
        let watches = shared.clone();
        match spawn_blocking(move || folders.search_again(&skills, &watches, reread)).await {
            Ok(next) => state = next,
            Err(error) => return tracing::error!("stopped watching skills: {error}"),
        }
    }
}

/// Waits until no event has arrived for a while. Returns whether known roots have to be searched again.
async fn settle(shared: &WatchShared) -> RereadScope {
    let until = Instant::now() + MAX_DELAY;
    let mut reread = RereadScope::New;
    while shared.has_event.swap(false, Ordering::AcqRel) {
        reread = RereadScope::All;
        if Instant::now() >= until {
            break;
        }
        tokio::time::sleep(QUIET_TIME).await;
    }
    reread
}

/// The roots that have to be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RereadScope {
    /// Roots that were not watched before.
    New,
    All,
}

/// The watched roots with their skills.
#[derive(Default)]
struct WatchedRoots {
    watcher: Option<SkillWatcher>,
    /// Set after the operating system refused to watch, so that it is not logged each time.
    is_refused: bool,
    found: HashMap<SkillRoot, Arc<RootScan>>,
}

impl WatchedRoots {
    /// Searches the roots of every directory, watches their folders, and reports changes. Returns `None` when
    /// the skills have been dropped. Blocks.
    fn search_again(
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
        let previously_found = std::mem::take(&mut self.found);
        let mut targets = WatchTargets::default();
        let mut is_changed = false;
        let roots: BTreeSet<_> = directories.iter().flat_map(|cwd| inner.watched_roots(cwd)).collect();
        for root in roots {
            let known = previously_found.get(&root);
            let now = match known {
                Some(known) if reread == RereadScope::New => known.clone(),
                known => {
                    // A result in the cache has been listed to a client, so a difference to it is a change
                    // too.
                    let previous = known.cloned().or_else(|| inner.cache.peek(&root));
                    let now = inner.cache.get(&root, CacheFreshness::Reread);
                    is_changed |= previous.is_some_and(|previous| !previous.is_same_as(&now));
                    now
                }
            };
            targets.add(&root.path, &now);
            self.found.insert(root, now);
        }
        let has_grown = self.follow(targets, shared);
        if is_changed {
            (inner.on_change)();
        }
        for cwd in &directories {
            if let Some(wanted) = shared.lock().get_mut(cwd) {
                wanted.is_watched = self.watcher.is_some();
            }
        }
        // Changes between the search and the start of the watch were missed.
        if has_grown {
            shared.on_event();
        }
        Some(self)
    }

    /// Returns whether folders are watched that were not watched before.
    fn follow(&mut self, targets: WatchTargets, shared: &Arc<WatchShared>) -> bool {
        if self.watcher.is_none() && !self.is_refused {
            let notified = shared.clone();
            let opened = SkillWatcher::open(move || notified.on_event());
            self.watcher =
                opened.inspect_err(|error| tracing::warn!("cannot watch skill files: {error}")).ok();
            self.is_refused = self.watcher.is_none();
        }
        self.watcher.as_mut().is_some_and(|watcher| watcher.follow(targets))
    }
}

impl WatchTargets {
    /// Adds the folders of a root, or the nearest existing folder above it.
    pub(super) fn add(&mut self, root: &Path, scan: &RootScan) {
        if scan.folders.is_empty() {
            self.watch_for_root(root);
        } else {
            self.folders.extend(scan.folders.iter().cloned());
        }
    }

    fn watch_for_root(&mut self, root: &Path) {
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
