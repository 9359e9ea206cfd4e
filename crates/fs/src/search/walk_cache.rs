//! A cache of the last walk for the searches that follow it.
//!
//! Users often search several times within a short time. A walk reads every directory; checking that none has changed is
//! much cheaper. So the last walk is kept for a while and used again if every directory and every ignore file is the same
//! one and has not changed since. The system keeps a change time of both that programs cannot set back.
//!
//! A change during a walk cannot be distinguished from one shortly before it. A tree with such changes is not cached, nor is
//! one on a network disk, whose times are those of another machine.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ignore::gitignore::gitconfig_excludes_path;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    index::{PathChunk, PathIndex},
    roots::SearchRoots,
    walk::PathKind,
};

/// How long a walk is cached after its last use.
pub(super) const CACHE_TIME: Duration = Duration::from_secs(60);

/// The size of the largest cached walk, which takes memory from other searches.
const MAX_BYTES: usize = 64 << 20;

/// How long before the walk the last change of a file must be, because file times are coarse.
const MARGIN: Duration = Duration::from_secs(2);

/// The ignore files of a directory, which decide what is found below it.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// The last walk of all searches.
#[derive(Debug, Default)]
pub(super) struct WalkCache {
    state: Mutex<CacheState>,
    /// Notified when a walk is no longer expected.
    expected_changed: Condvar,
}

#[derive(Debug, Default)]
struct CacheState {
    entry: Option<CacheEntry>,
    /// Walks that have ended and are being checked.
    expected: Vec<SearchRoots>,
}

#[derive(Debug)]
struct CacheEntry {
    walk: Arc<CachedWalk>,
    used: Instant,
}

/// A walk and everything that its result depends on.
#[derive(Debug)]
struct CachedWalk {
    roots: SearchRoots,
    index: Arc<PathIndex>,
    chunks: Vec<(Arc<PathChunk>, Vec<PathStamp>)>,
    dependencies: Vec<WalkDependency>,
    /// The file with the ignore rules for all repositories.
    global_excludes: Option<PathBuf>,
}

/// A dependency besides the directories that were read: an ignore file, which may be missing, or a directory above a root.
#[derive(Debug)]
struct WalkDependency {
    path: PathBuf,
    aspect: PathAspect,
    stamp: Option<PathStamp>,
}

/// The aspect of a path that a walk depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathAspect {
    /// Any change.
    Change,
    /// Its identity only; its contents may change.
    Identity,
}

impl WalkCache {
    /// Returns the cached walk of these roots if it is still valid. Waits if one is being checked.
    pub fn get(&self, roots: &SearchRoots, threads: usize) -> Option<Arc<PathIndex>> {
        let is_expected = |state: &mut CacheState| state.expected.contains(roots);
        let mut state = self.lock();
        self.expected_changed.wait_while(&mut state, is_expected);
        let walk = state.entry.as_ref().map(|entry| entry.walk.clone())?;
        drop(state);
        if walk.roots != *roots || !walk.is_valid(threads) {
            return None;
        }
        if let Some(entry) = &mut self.lock().entry {
            entry.used = Instant::now();
        }
        Some(walk.index.clone())
    }

    /// Announces a walk of these roots. Searches for the same roots wait for it from now on.
    pub fn expect(&self, roots: &SearchRoots) -> ExpectedWalk<'_> {
        self.lock().expected.push(roots.clone());
        ExpectedWalk { cache: self, roots: roots.clone() }
    }

    /// Drops walks that have not been used for a while. Returns when to check again, if a walk is left.
    pub fn remove_unused(&self) -> Option<Duration> {
        let mut state = self.lock();
        let left = CACHE_TIME.saturating_sub(state.entry.as_ref()?.used.elapsed());
        if left.is_zero() {
            state.entry = None;
            return None;
        }
        Some(left)
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock()
    }
}

/// An announced walk. Others wait for it until this is dropped.
pub(super) struct ExpectedWalk<'c> {
    cache: &'c WalkCache,
    roots: SearchRoots,
}

impl ExpectedWalk<'_> {
    /// Caches the walk, which has ended and began at this time, if its result is reliable.
    pub fn keep(self, index: &Arc<PathIndex>, began: SystemTime, threads: usize) {
        if let Some(walk) = CachedWalk::of(&self.roots, index, began, threads) {
            self.cache.lock().entry = Some(CacheEntry { walk: Arc::new(walk), used: Instant::now() });
        }
    }
}

impl Drop for ExpectedWalk<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if let Some(at) = state.expected.iter().position(|roots| *roots == self.roots) {
            state.expected.swap_remove(at);
        }
        drop(state);
        self.cache.expected_changed.notify_all();
    }
}

impl CachedWalk {
    /// Returns `None` if the tree cannot be cached.
    fn of(roots: &SearchRoots, index: &Arc<PathIndex>, began: SystemTime, threads: usize) -> Option<Self> {
        let is_local = roots.iter().all(|(_, root)| is_local(&root.path));
        if !index.is_whole() || index.bytes() > MAX_BYTES || !is_local {
            return None;
        }
        let before = FileTime::of(began.checked_sub(MARGIN)?);
        let mut survey = ChangeSurvey { before, dependencies: Vec::new() };
        roots.iter().try_for_each(|(_, root)| survey.add_root(&root.path))?;
        let global_excludes = gitconfig_excludes_path();
        global_excludes.clone().map_or(Some(()), |path| survey.add(path, PathAspect::Change))?;
        let (chunks, _) = index.chunks();
        let surveyed = map_in_parallel(&chunks, threads, |chunk| {
            let mut survey = ChangeSurvey { before, dependencies: Vec::new() };
            let stamps = survey.add_chunk(roots.path(chunk.root)?, chunk)?;
            Some((chunk.clone(), stamps, survey.dependencies))
        })?;
        let mut dependencies = survey.dependencies;
        let chunks = surveyed.into_iter().map(|(chunk, stamps, rules)| {
            dependencies.extend(rules);
            (chunk, stamps)
        });
        let chunks = chunks.collect();
        Some(Self { roots: roots.clone(), index: index.clone(), chunks, dependencies, global_excludes })
    }

    fn is_valid(&self, threads: usize) -> bool {
        self.global_excludes == gitconfig_excludes_path()
            && self.dependencies.iter().all(WalkDependency::is_valid)
            && map_in_parallel(&self.chunks, threads, |(chunk, stamps)| {
                self.is_chunk_valid(chunk, stamps).then_some(())
            })
            .is_some()
    }

    fn is_chunk_valid(&self, chunk: &PathChunk, stamps: &[PathStamp]) -> bool {
        let Some(root) = self.roots.path(chunk.root) else { return false };
        let mut path = PathBuf::new();
        chunk.directories_and_links().zip(stamps).all(|(found, stamp)| {
            path.clear();
            path.push(root);
            path.push(found.path);
            PathStamp::of(&path, aspect(found.kind)).is_ok_and(|now| now == *stamp)
        })
    }
}

/// Processes all items on several threads. Returns `None` as soon as one fails. The order is not kept.
fn map_in_parallel<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    work: impl Fn(&T) -> Option<R> + Sync,
) -> Option<Vec<R>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(all.len()));
    let run = || {
        while !failed.load(Ordering::Relaxed)
            && let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed))
        {
            match work(one) {
                Some(result) => done.lock().push(result),
                None => failed.store(true, Ordering::Relaxed),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(all.len()) {
            scope.spawn(run);
        }
        run();
    });
    let done = done.into_inner();
    (!failed.into_inner()).then_some(done)
}

impl WalkDependency {
    fn is_valid(&self) -> bool {
        PathStamp::of(&self.path, self.aspect).ok() == self.stamp
    }
}

/// Returns the aspect that matters: a directory was read, of a link's target only the existence matters.
fn aspect(kind: PathKind) -> PathAspect {
    match kind {
        PathKind::Directory => PathAspect::Change,
        PathKind::File => PathAspect::Identity,
    }
}

/// Collects the dependencies of a walk. Fails for one that may have changed during the walk.
struct ChangeSurvey {
    /// The time after which nothing may have changed.
    before: FileTime,
    dependencies: Vec<WalkDependency>,
}

impl ChangeSurvey {
    fn add_root(&mut self, root: &Path) -> Option<()> {
        self.add(root.to_owned(), PathAspect::Change)?;
        self.add_rules(root)?;
        // Ignore files above a root count as well, even if they do not exist yet.
        root.ancestors().skip(1).try_for_each(|above| {
            let repository = above.join(".git");
            if repository.is_file() {
                return None;
            }
            // Every use of git changes the time of this directory.
            self.add(repository, PathAspect::Identity)?;
            RULES.iter().try_for_each(|name| self.add(above.join(name), PathAspect::Change))
        })
    }

    /// Adds the directories and links of a chunk, which must all be on the disk of the root.
    fn add_chunk(&mut self, root: &Path, chunk: &PathChunk) -> Option<Vec<PathStamp>> {
        let device = PathStamp::of(root, PathAspect::Identity).ok()?.device;
        let stamps = chunk.directories_and_links().map(|found| {
            let path = root.join(found.path);
            if found.kind == PathKind::Directory {
                self.add_rules(&path)?;
            }
            let stamp = PathStamp::of(&path, aspect(found.kind)).ok()?;
            (stamp.device == device && stamp.changed <= self.before).then_some(stamp)
        });
        stamps.collect()
    }

    /// Adds the ignore files of a directory. New ones would change the directory itself.
    fn add_rules(&mut self, folder: &Path) -> Option<()> {
        for name in RULES {
            let path = folder.join(name);
            match fs::metadata(&path) {
                Ok(_) => self.add(path, PathAspect::Change)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A repository whose ignore rules are elsewhere, or an unusual file.
                Err(_) => return None,
            }
        }
        Some(())
    }

    fn add(&mut self, path: PathBuf, aspect: PathAspect) -> Option<()> {
        let stamp = PathStamp::of(&path, aspect).ok();
        if stamp.is_some_and(|stamp| stamp.changed > self.before) {
            return None;
        }
        self.dependencies.push(WalkDependency { path, aspect, stamp });
        Some(())
    }
}

/// The identity and change time of a path, which differ after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathStamp {
    device: u64,
    inode: u64,
    is_directory: bool,
    changed: FileTime,
}

/// Seconds and nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct FileTime(i64, i64);

impl FileTime {
    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_nanos().into())
    }
}

impl PathStamp {
    fn of(path: &Path, aspect: PathAspect) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let changed = match aspect {
            PathAspect::Change => FileTime(found.ctime(), found.ctime_nsec()),
            PathAspect::Identity => FileTime::default(),
        };
        Ok(Self { device: found.dev(), inode: found.ino(), is_directory: found.is_dir(), changed })
    }
}

/// Returns whether file times come from this machine's clock, which is known on Linux only.
#[cfg(target_os = "linux")]
fn is_local(path: &Path) -> bool {
    /// File systems whose files other machines may change: NFS, SMB, FUSE, 9p, Ceph, AFS, Lustre, OCFS2, GFS2.
    const SHARED: [i64; 11] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x0bd0_0bd0,
        0x7461_636f,
        0x0116_1970,
    ];
    // The field has another type on some platforms.
    #[allow(clippy::unnecessary_cast)]
    rustix::fs::statfs(path).is_ok_and(|found| !SHARED.contains(&(found.f_type as i64)))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
