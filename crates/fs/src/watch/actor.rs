//! The thread that owns all watches.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    WatchError,
    change_listener::ChangeListener,
    folders::{LostFolder, WatchedFolders},
    mailbox::{NewWatch, PathChange, WatchMailbox},
    watch_plan::{PathSnapshot, WatchPlan},
};

/// How long changes are collected before they are sent. Writing a file causes several changes.
const COLLECT_TIME: Duration = Duration::from_millis(100);

/// How many changed paths of one watch are collected. More are sent at once.
pub(super) const MAX_COLLECTED: usize = 1024;

/// How often a plan is repeated because the files changed while it was carried out.
const MAX_PLANS: usize = 8;

pub(super) struct WatchActor {
    mailbox: Arc<WatchMailbox>,
    folders: WatchedFolders,
    targets: HashMap<u64, WatchTarget>,
    /// When to send the collected changes.
    due: Option<Instant>,
}

/// One watched path.
struct WatchTarget {
    path: PathBuf,
    listener: Arc<ChangeListener>,
    plan: WatchPlan,
    snapshot: Option<PathSnapshot>,
    changed: BTreeSet<PathBuf>,
}

impl WatchActor {
    pub fn new(mailbox: Arc<WatchMailbox>) -> Self {
        Self { folders: WatchedFolders::new(mailbox.clone()), mailbox, targets: HashMap::new(), due: None }
    }

    pub fn run(mut self) {
        while let Some(messages) = self.mailbox.next(self.due) {
            messages.ended.into_iter().for_each(|number| self.on_end(number));
            if messages.overflow {
                self.on_overflow();
            } else {
                self.on_changes(messages.changes);
            }
            messages.begin.into_iter().for_each(|begin| self.on_begin(begin));
            self.plan_stale();
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.send_changes();
            }
        }
    }

    fn on_begin(&mut self, begin: NewWatch) {
        let NewWatch { number, path, listener, reply } = begin;
        let snapshot = PathSnapshot::of(&path);
        let target =
            WatchTarget { path, listener, plan: WatchPlan::default(), snapshot, changed: BTreeSet::new() };
        self.targets.insert(number, target);
        let begun = self.settle(number);
        if begun.is_err() {
            self.on_end(number);
        }
        // If the client is gone, its watch has been dropped, which ends it.
        let _ = reply.send(begun);
    }

    /// Ends a watch. Its number is unknown if it never began.
    fn on_end(&mut self, number: u64) {
        if let Some(target) = self.targets.remove(&number) {
            self.folders.leave(number, &target.plan);
        }
    }

    fn on_changes(&mut self, changes: HashMap<PathBuf, PathChange>) {
        for (path, change) in &changes {
            if *change == PathChange::Gone && self.folders.at(path).is_some() {
                let lost = self.folders.lose(path);
                self.on_lost(lost);
            }
        }
        changes.iter().for_each(|(path, change)| self.on_change(path, *change));
    }

    fn on_change(&mut self, path: &Path, change: PathChange) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let Some(place) = self.folders.at(parent) else { return };
        let (by_name, whole) = self.folders.interested(place, name);
        for number in whole {
            self.note(number, |target| Some(target.path.join(name)));
        }
        // A path may have appeared just before the watch began; its snapshot shows whether it changed since.
        if change != PathChange::Appeared {
            for &number in &by_name {
                self.note(number, |target| target.plan.is_target(place, name).then(|| target.path.clone()));
            }
        }
        if change != PathChange::Content {
            self.replan(by_name);
        }
    }

    fn on_lost(&mut self, lost: Vec<LostFolder>) {
        let mut users = Vec::new();
        for LostFolder { place, users: numbers } in lost {
            for number in &numbers {
                if let Some(target) = self.targets.get_mut(number) {
                    target.plan.without(place);
                }
            }
            users.extend(numbers);
        }
        self.replan(users);
    }

    /// Handles lost reports: everything may have changed, and any directory may be gone.
    fn on_overflow(&mut self) {
        tracing::warn!("too many file changes at once, reporting a change to all watches");
        self.folders.lose_all();
        self.targets.values_mut().for_each(|target| target.plan = WatchPlan::default());
        let numbers: Vec<_> = self.targets.keys().copied().collect();
        for &number in &numbers {
            self.note(number, |target| Some(target.path.clone()));
        }
        self.replan(numbers);
    }

    /// Replans watches until none is stale. Carrying out a plan may show that others are out of date.
    fn plan_stale(&mut self) {
        for _ in 0..MAX_PLANS {
            match self.folders.take_stale() {
                stale if stale.is_empty() => return,
                stale => self.on_lost(stale),
            }
        }
    }

    /// Updates the plans of watches. A watch that the system refuses continues with fewer directories.
    fn replan(&mut self, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            if let Err(error) = self.settle(number) {
                tracing::warn!("a watched path can no longer be watched: {error}");
            }
        }
    }

    /// Makes the system watch the directories that a path depends on now.
    ///
    /// The files may change before the system watches, so this is repeated until the plan is stable. The snapshot of the path
    /// shows whether it has changed in between.
    fn settle(&mut self, number: u64) -> Result<(), WatchError> {
        let mut result = Ok(());
        for _ in 0..MAX_PLANS {
            let Some(target) = self.targets.get_mut(&number) else { return Ok(()) };
            let plan = WatchPlan::of(&target.path);
            let before = std::mem::replace(&mut target.plan, plan.clone());
            let joined = self.folders.join(number, &plan);
            self.folders.leave(number, &before);
            result = joined;
            if result.is_err() {
                let Some(target) = self.targets.get_mut(&number) else { return Ok(()) };
                target.plan = WatchPlan::default();
                // A directory that was removed just now is not an error.
                if WatchPlan::of(&target.path) == plan {
                    break;
                }
            } else if plan == before {
                break;
            }
        }
        self.note(number, |target| {
            let now = PathSnapshot::of(&target.path);
            let changed = now != target.snapshot;
            target.snapshot = now;
            changed.then(|| target.path.clone())
        });
        result
    }

    /// Collects a changed path, to be sent soon.
    fn note(&mut self, number: u64, changed: impl FnOnce(&mut WatchTarget) -> Option<PathBuf>) {
        let Some(target) = self.targets.get_mut(&number) else { return };
        let Some(path) = changed(target) else { return };
        target.changed.insert(path);
        if target.changed.len() >= MAX_COLLECTED {
            target.send_changes();
        }
        self.due.get_or_insert_with(|| Instant::now() + COLLECT_TIME);
    }

    fn send_changes(&mut self) {
        self.due = None;
        self.targets.values_mut().for_each(WatchTarget::send_changes);
    }
}

impl Drop for WatchActor {
    /// Closes the mailbox, also when the thread panics: watches that wait to begin then fail, and the next one starts a
    /// new thread.
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

impl WatchTarget {
    fn send_changes(&mut self) {
        if !self.changed.is_empty() {
            self.listener.send_changes(std::mem::take(&mut self.changed));
        }
    }
}
