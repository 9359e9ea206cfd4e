//! A file system watcher that only reports events that concern skills.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;

/// Maximum number of watched folders.
const MAX_FOLDERS: usize = 4096;

/// The folders to watch, and which of their events matter.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchTargets {
    /// Folders with skills. Every event in them matters, except for hidden files.
    pub folders: BTreeSet<PathBuf>,
    /// Existing folders above roots that do not exist yet.
    pub above: BTreeSet<PathBuf>,
    /// Paths whose creation leads to such a root.
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

/// A watcher with its folders. Dropping it stops the watching.
pub(super) struct SkillWatcher {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    targets: Arc<Mutex<WatchTargets>>,
}

impl SkillWatcher {
    /// Calls `on_relevant_event`, from a thread of its own, for each event that concerns the targets.
    pub fn open(on_relevant_event: impl Fn() + Send + 'static) -> notify::Result<Self> {
        let targets = Arc::new(Mutex::new(WatchTargets::default()));
        let watched = targets.clone();
        let on_event = move |event: notify::Result<Event>| {
            let concerns = |event: &Event| watched.lock().concerns(event);
            if event.as_ref().map_or(true, concerns) {
                on_relevant_event();
            }
        };
        let watcher = RecommendedWatcher::new(on_event, Config::default())?;
        Ok(Self { watcher, watched: BTreeSet::new(), targets })
    }

    /// Replaces the watched folders. Returns whether some of them were not watched before.
    pub fn follow(&mut self, targets: WatchTargets) -> bool {
        let wanted: BTreeSet<_> = targets.folders.union(&targets.above).take(MAX_FOLDERS).cloned().collect();
        *self.targets.lock() = targets;
        for removed in self.watched.difference(&wanted) {
            // The operating system has already dropped a folder that was deleted.
            let _ = self.watcher.unwatch(removed);
        }
        let before = std::mem::take(&mut self.watched);
        // Also watch known folders again: one may have been replaced by another of the same name.
        for folder in wanted {
            match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(folder)),
                Err(error) => tracing::debug!("cannot watch {}: {error}", folder.display()),
            }
        }
        !self.watched.is_subset(&before)
    }
}
