//! The operating system's notices about folders, filtered to what matters for skills.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;

/// How many folders are followed.
const MAX_FOLDERS: usize = 4096;

/// What to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchTargets {
    /// Folders with skills: everything in them matters that is not hidden.
    pub folders: BTreeSet<PathBuf>,
    /// Folders above roots that are not there yet.
    pub above: BTreeSet<PathBuf>,
    /// Names in those that matter: the way to a root.
    pub awaited: BTreeSet<PathBuf>,
}

impl WatchTargets {
    fn concerns(&self, event: &Event) -> bool {
        let is_reading = matches!(event.kind, EventKind::Access(_));
        event.need_rescan() || (!is_reading && event.paths.iter().any(|path| self.includes(path)))
    }

    fn includes(&self, path: &Path) -> bool {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_inside = || path.parent().is_some_and(|folder| self.folders.contains(folder));
        self.awaited.contains(path) || self.folders.contains(path) || (!is_hidden && is_inside())
    }
}

/// A watcher and what it watches. It ends when it is dropped.
pub(super) struct SkillWatcher {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    sights: Arc<Mutex<WatchTargets>>,
}

impl SkillWatcher {
    /// `stirred` is called, from a thread of its own, whenever something in sight happened.
    pub fn open(stirred: impl Fn() + Send + 'static) -> notify::Result<Self> {
        let sights = Arc::new(Mutex::new(WatchTargets::default()));
        let seen = sights.clone();
        let on_event = move |event: notify::Result<Event>| {
            let concerns = |event: &Event| lock(&seen).concerns(event);
            if event.as_ref().map_or(true, concerns) {
                stirred();
            }
        };
        let watcher = RecommendedWatcher::new(on_event, Config::default())?;
        Ok(Self { watcher, watched: BTreeSet::new(), sights })
    }

    /// Looks at this and nothing else from now on. True when some of it is new.
    pub fn follow(&mut self, sights: WatchTargets) -> bool {
        let wanted: BTreeSet<_> = sights.folders.union(&sights.above).take(MAX_FOLDERS).cloned().collect();
        *lock(&self.sights) = sights;
        for gone in self.watched.difference(&wanted) {
            // The system forgets a folder that was removed by itself.
            let _ = self.watcher.unwatch(gone);
        }
        let before = std::mem::take(&mut self.watched);
        // Again also for those that are watched: a folder may have been replaced by another of its name.
        for folder in wanted {
            match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(folder)),
                Err(error) => tracing::debug!("{} is not watched: {error}", folder.display()),
            }
        }
        !self.watched.is_subset(&before)
    }
}

fn lock(sights: &Mutex<WatchTargets>) -> parking_lot::MutexGuard<'_, WatchTargets> {
    sights.lock()
}
