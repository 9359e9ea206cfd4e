//! The last walk, for the searches that follow it.
//!
//! People search again and again within moments. To walk is to read every directory; to see that none of
//! them has changed is much cheaper. So the last walk is kept for a while and used again, if every directory
//! and every file with rules is still the same one and has not been changed since: of both the system keeps
//! a time that nobody can set back.
//!
//! What changed during a walk cannot be told from what changed shortly before. A tree with such changes is
//! not remembered, nor is one on a network disk, whose times are another machine's.

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

/// How long a walk is remembered after it was last used.
pub(super) const TIME: Duration = Duration::from_secs(60);

/// The largest walk that is remembered; it takes room from others.
const MAX_BYTES: usize = 64 << 20;

/// Clocks of disks are coarse; what is younger than this when a walk begins counts as changing.
const MARGIN: Duration = Duration::from_secs(2);

/// Files in a directory that decide what is found below it.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

#[derive(Debug, Default)]
pub(super) struct WalkMemory {
    state: Mutex<MemoryState>,
    /// Woken when a walk is not expected any more.
    looked: Condvar,
}

#[derive(Debug, Default)]
struct MemoryState {
    kept: Option<KeptWalk>,
    /// Walks that are over and being looked into.
    expected: Vec<SearchRoots>,
}

#[derive(Debug)]
struct KeptWalk {
    walk: Arc<RememberedWalk>,
    used: Instant,
}

/// A walk, and all that its result rests on.
#[derive(Debug)]
struct RememberedWalk {
    roots: SearchRoots,
    index: Arc<PathIndex>,
    chunks: Vec<(Arc<PathChunk>, Vec<PathStamp>)>,
    others: Vec<WatchedPath>,
    /// Which file holds the rules for all repositories.
    everywhere: Option<PathBuf>,
}

/// Something beside the directories that were read: a file with rules, which may be missing, or what is
/// above a root.
#[derive(Debug)]
struct WatchedPath {
    path: PathBuf,
    aspect: PathAspect,
    stamp: Option<PathStamp>,
}

/// What matters about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathAspect {
    /// Any change of it.
    Change,
    /// Only that it is the same thing: it may be written to.
    Identity,
}

impl WalkMemory {
    /// What a walk of these roots would find, if that is known. Waits if it is about to be.
    pub fn recall(&self, roots: &SearchRoots, threads: usize) -> Option<Arc<PathIndex>> {
        let is_expected = |state: &mut MemoryState| state.expected.contains(roots);
        let mut state = self.lock();
        self.looked.wait_while(&mut state, is_expected);
        let walk = state.kept.as_ref().map(|kept| kept.walk.clone())?;
        drop(state);
        if walk.roots != *roots || !walk.still_holds(threads) {
            return None;
        }
        if let Some(kept) = &mut self.lock().kept {
            kept.used = Instant::now();
        }
        Some(walk.index.clone())
    }

    /// Says that a walk of these roots is about to be known. Whoever asks for it waits from now on.
    pub fn expect(&self, roots: &SearchRoots) -> ExpectedWalk<'_> {
        self.lock().expected.push(roots.clone());
        ExpectedWalk { memory: self, roots: roots.clone() }
    }

    /// Forgets what has not been used for a while; tells when to look again, if there is something left.
    pub fn forget_unused(&self) -> Option<Duration> {
        let mut state = self.lock();
        let left = TIME.saturating_sub(state.kept.as_ref()?.used.elapsed());
        if left.is_zero() {
            state.kept = None;
            return None;
        }
        Some(left)
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }
}

/// A walk that others wait for, until this is gone.
pub(super) struct ExpectedWalk<'m> {
    memory: &'m WalkMemory,
    roots: SearchRoots,
}

impl ExpectedWalk<'_> {
    /// Keeps the walk, which is over and began at this time, if its result can be relied on.
    pub fn keep(self, index: &Arc<PathIndex>, began: SystemTime, threads: usize) {
        if let Some(walk) = RememberedWalk::of(&self.roots, index, began, threads) {
            self.memory.lock().kept = Some(KeptWalk { walk: Arc::new(walk), used: Instant::now() });
        }
    }
}

impl Drop for ExpectedWalk<'_> {
    fn drop(&mut self) {
        let mut state = self.memory.lock();
        if let Some(at) = state.expected.iter().position(|roots| *roots == self.roots) {
            state.expected.swap_remove(at);
        }
        drop(state);
        self.memory.looked.notify_all();
    }
}

impl RememberedWalk {
    /// `None` when the tree is not one to be remembered.
    fn of(roots: &SearchRoots, index: &Arc<PathIndex>, began: SystemTime, threads: usize) -> Option<Self> {
        let is_local = roots.iter().all(|(_, root)| is_local(&root.path));
        if !index.is_whole() || index.bytes() > MAX_BYTES || !is_local {
            return None;
        }
        let before = FileTime::of(began.checked_sub(MARGIN)?);
        let mut survey = ChangeSurvey { before, others: Vec::new() };
        roots.iter().try_for_each(|(_, root)| survey.root(&root.path))?;
        let everywhere = gitconfig_excludes_path();
        everywhere.clone().map_or(Some(()), |path| survey.other(path, PathAspect::Change))?;
        let (chunks, _) = index.chunks();
        let surveyed = all_of(&chunks, threads, |chunk| {
            let mut survey = ChangeSurvey { before, others: Vec::new() };
            let stamps = survey.chunk(roots.path(chunk.root)?, chunk)?;
            Some((chunk.clone(), stamps, survey.others))
        })?;
        let mut others = survey.others;
        let chunks = surveyed.into_iter().map(|(chunk, stamps, rules)| {
            others.extend(rules);
            (chunk, stamps)
        });
        let chunks = chunks.collect();
        Some(Self { roots: roots.clone(), index: index.clone(), chunks, others, everywhere })
    }

    fn still_holds(&self, threads: usize) -> bool {
        self.everywhere == gitconfig_excludes_path()
            && self.others.iter().all(WatchedPath::still_holds)
            && all_of(&self.chunks, threads, |(chunk, stamps)| self.chunk_holds(chunk, stamps).then_some(()))
                .is_some()
    }

    fn chunk_holds(&self, chunk: &PathChunk, stamps: &[PathStamp]) -> bool {
        let Some(root) = self.roots.path(chunk.root) else { return false };
        let mut path = PathBuf::new();
        chunk.landmarks().zip(stamps).all(|(mark, stamp)| {
            path.clear();
            path.push(root);
            path.push(mark.path);
            PathStamp::of(&path, aspect(mark.kind)).is_ok_and(|now| now == *stamp)
        })
    }
}

/// Works on everything, on several threads; `None` as soon as one of it fails. The order is lost.
fn all_of<T: Sync, R: Send>(
    all: &[T],
    threads: usize,
    work: impl Fn(&T) -> Option<R> + Sync,
) -> Option<Vec<R>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
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

impl WatchedPath {
    fn still_holds(&self) -> bool {
        PathStamp::of(&self.path, self.aspect).ok() == self.stamp
    }
}

/// A directory was read; of what a link leads to it only matters that it is there.
fn aspect(kind: PathKind) -> PathAspect {
    match kind {
        PathKind::Directory => PathAspect::Change,
        PathKind::File => PathAspect::Identity,
    }
}

/// Looks at what a walk rests on, and gives up at something that may have changed meanwhile.
struct ChangeSurvey {
    /// Nothing may have changed since.
    before: FileTime,
    others: Vec<WatchedPath>,
}

impl ChangeSurvey {
    fn root(&mut self, root: &Path) -> Option<()> {
        self.other(root.to_owned(), PathAspect::Change)?;
        self.rules(root)?;
        // Rules above count as well, also such as do not exist yet.
        root.ancestors().skip(1).try_for_each(|above| {
            let repository = above.join(".git");
            if repository.is_file() {
                return None;
            }
            // Whatever git does in there changes its time.
            self.other(repository, PathAspect::Identity)?;
            RULES.iter().try_for_each(|name| self.other(above.join(name), PathAspect::Change))
        })
    }

    /// The directories and links of a chunk, which must all be on the disk of the root.
    fn chunk(&mut self, root: &Path, chunk: &PathChunk) -> Option<Vec<PathStamp>> {
        let device = PathStamp::of(root, PathAspect::Identity).ok()?.device;
        let stamps = chunk.landmarks().map(|mark| {
            let path = root.join(mark.path);
            if mark.kind == PathKind::Directory {
                self.rules(&path)?;
            }
            let stamp = PathStamp::of(&path, aspect(mark.kind)).ok()?;
            (stamp.device == device && stamp.changed <= self.before).then_some(stamp)
        });
        stamps.collect()
    }

    /// The rules in a directory. New ones would change the directory itself.
    fn rules(&mut self, folder: &Path) -> Option<()> {
        for name in RULES {
            let path = folder.join(name);
            match fs::metadata(&path) {
                Ok(_) => self.other(path, PathAspect::Change)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A repository that has its own rules elsewhere, or something stranger.
                Err(_) => return None,
            }
        }
        Some(())
    }

    fn other(&mut self, path: PathBuf, aspect: PathAspect) -> Option<()> {
        let stamp = PathStamp::of(&path, aspect).ok();
        if stamp.is_some_and(|stamp| stamp.changed > self.before) {
            return None;
        }
        self.others.push(WatchedPath { path, aspect, stamp });
        Some(())
    }
}

/// What tells that something is not what it was.
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

/// Whether times of files are by this machine's clock. Not known elsewhere than on Linux.
#[cfg(target_os = "linux")]
fn is_local(path: &Path) -> bool {
    /// File systems whose files may change elsewhere: NFS, SMB, FUSE, 9p, Ceph, AFS, Lustre, OCFS2, GFS2.
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
    // The field has another width on some machines.
    #[allow(clippy::unnecessary_cast)]
    rustix::fs::statfs(path).is_ok_and(|found| !SHARED.contains(&(found.f_type as i64)))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
