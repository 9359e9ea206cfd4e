//! The thread that owns all watches.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    WatchError,
    ear::ChangeListener,
    folders::{LostFolder, WatchedFolders},
    mailbox::{NewWatch, PathChange, WatchMailbox},
    place::{PathSnapshot, WatchPlan},
};

/// How long changes are gathered before they are told. Writing a file is several changes.
const GATHERING: Duration = Duration::from_millis(100);

/// Changed paths of one watch that are gathered; with more they are told at once.
pub(super) const MAX_HELD: usize = 1024;

/// How often a plan is made anew because things changed while it was carried out.
const MAX_PLANS: usize = 8;

pub(super) struct WatchActor {
    mailbox: Arc<WatchMailbox>,
    folders: WatchedFolders,
    targets: HashMap<u64, WatchTarget>,
    /// When to tell what has been gathered.
    due: Option<Instant>,
}

/// One watched path.
struct WatchTarget {
    path: PathBuf,
    ear: Arc<ChangeListener>,
    plan: WatchPlan,
    snapshot: Option<PathSnapshot>,
    changed: BTreeSet<PathBuf>,
}

impl WatchActor {
    pub fn new(mailbox: Arc<WatchMailbox>) -> Self {
        Self { folders: WatchedFolders::new(mailbox.clone()), mailbox, targets: HashMap::new(), due: None }
    }

    pub fn run(mut self) {
        while let Some(news) = self.mailbox.next(self.due) {
            news.ended.into_iter().for_each(|number| self.on_end(number));
            if news.overflow {
                self.on_overflow();
            } else {
                self.on_changes(news.changes);
            }
            news.begin.into_iter().for_each(|begin| self.on_begin(begin));
            self.plan_stale();
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.tell();
            }
        }
    }

    fn on_begin(&mut self, begin: NewWatch) {
        let NewWatch { number, path, ear, reply } = begin;
        let snapshot = PathSnapshot::of(&path);
        let target =
            WatchTarget { path, ear, plan: WatchPlan::default(), snapshot, changed: BTreeSet::new() };
        self.targets.insert(number, target);
        let begun = self.settle(number);
        if begun.is_err() {
            self.on_end(number);
        }
        // Nobody waits any more if the client has gone; its watch ends by itself.
        let _ = reply.send(begun);
    }

    /// Unknown when the watch never began.
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
        // What has appeared may have done so just before the watch began; a look at it tells.
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

    /// Everything may have changed, and any directory may have gone.
    fn on_overflow(&mut self) {
        tracing::warn!("too many file changes at once; all watches are told of a change");
        self.folders.lose_all();
        self.targets.values_mut().for_each(|target| target.plan = WatchPlan::default());
        let numbers: Vec<_> = self.targets.keys().copied().collect();
        for &number in &numbers {
            self.note(number, |target| Some(target.path.clone()));
        }
        self.replan(numbers);
    }

    /// Carrying out a plan may show that others are out of date.
    fn plan_stale(&mut self) {
        for _ in 0..MAX_PLANS {
            match self.folders.take_stale() {
                stale if stale.is_empty() => return,
                stale => self.on_lost(stale),
            }
        }
    }

    /// Looks where the paths are now. A watch that the system refuses goes on with less.
    fn replan(&mut self, mut numbers: Vec<u64>) {
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            if let Err(error) = self.settle(number) {
                tracing::warn!("a watched path can no longer be watched: {error}");
            }
        }
    }

    /// Brings what the system watches in line with where a path is now.
    ///
    /// Things may change until the system watches, so the look is repeated until it shows the same. Whether
    /// the path has changed meanwhile, its snapshot tells.
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
                // A directory that went away in this moment is no reason to give up.
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

    /// Gathers a changed path, to be told soon.
    fn note(&mut self, number: u64, changed: impl FnOnce(&mut WatchTarget) -> Option<PathBuf>) {
        let Some(target) = self.targets.get_mut(&number) else { return };
        let Some(path) = changed(target) else { return };
        target.changed.insert(path);
        if target.changed.len() >= MAX_HELD {
            target.tell();
        }
        self.due.get_or_insert_with(|| Instant::now() + GATHERING);
    }

    fn tell(&mut self) {
        self.due = None;
        self.targets.values_mut().for_each(WatchTarget::tell);
    }
}

impl WatchTarget {
    fn tell(&mut self) {
        if !self.changed.is_empty() {
            self.ear.tell(std::mem::take(&mut self.changed));
        }
    }
}
