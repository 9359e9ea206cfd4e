//! The paths that a walk has found, in a compact form of about 60 bytes each.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::{
    MAX_INDEX_BYTES, MAX_PATHS,
    matching::letters,
    walk::{FoundPath, PathKind, WalkVisitor},
};

/// The number of paths in the first chunk of a thread. It is small, so that there are results soon; each following one is
/// twice as large.
const FIRST_CHUNK: usize = 64;
const MAX_CHUNK: usize = 4096;

/// The size of one entry without its path.
const ENTRY_BYTES: usize = size_of::<PathEntry>();

/// All paths of a walk. It grows while the walk runs and never shrinks.
#[derive(Debug)]
pub(super) struct PathIndex {
    chunks: RwLock<Vec<Arc<PathChunk>>>,
    complete: AtomicBool,
    /// Whether paths are missing that could have been found.
    is_incomplete: AtomicBool,
    /// Notified when paths are added, and at the end of the walk.
    pub grown: Notify,
    /// The size of this index in bytes, which is part of the size of all indexes.
    bytes: AtomicUsize,
    paths: AtomicUsize,
    /// The size of all indexes.
    total_bytes: Arc<AtomicUsize>,
}

/// A group of paths below one root.
#[derive(Debug)]
pub(super) struct PathChunk {
    pub root: u32,
    text: String,
    entries: Vec<PathEntry>,
}

#[derive(Clone, Copy, Debug)]
struct PathEntry {
    letters: u64,
    /// The end of the path, which begins at the end of the previous one.
    end: u32,
    kind: PathKind,
    is_link: bool,
}

impl PathIndex {
    pub fn new(total_bytes: Arc<AtomicUsize>) -> Self {
        Self {
            chunks: RwLock::default(),
            complete: AtomicBool::new(false),
            is_incomplete: AtomicBool::new(false),
            grown: Notify::new(),
            bytes: AtomicUsize::new(0),
            paths: AtomicUsize::new(0),
            total_bytes,
        }
    }

    /// Returns the chunks so far, and whether these are all.
    pub fn chunks(&self) -> (Vec<Arc<PathChunk>>, bool) {
        // In this order, so that no chunk is missed that was added before the end.
        let complete = self.complete.load(Ordering::Acquire);
        (self.chunks.read().clone(), complete)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether the walk has ended and has visited everything.
    pub fn is_whole(&self) -> bool {
        self.complete.load(Ordering::Acquire) && !self.is_incomplete.load(Ordering::Relaxed)
    }

    /// Marks the end of the walk.
    pub fn finish(&self) {
        self.complete.store(true, Ordering::Release);
        self.grown.notify_one();
    }

    /// Adds a chunk. Returns false if there is no room for more.
    fn add(&self, chunk: PathChunk) -> bool {
        let bytes = chunk.text.len() + chunk.entries.len() * ENTRY_BYTES;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let paths = self.paths.fetch_add(chunk.entries.len(), Ordering::Relaxed) + chunk.entries.len();
        let total_bytes = self.total_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.chunks.write().push(Arc::new(chunk));
        self.grown.notify_one();
        total_bytes < MAX_INDEX_BYTES && paths < MAX_PATHS
    }
}

impl Drop for PathIndex {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl PathChunk {
    fn new(size: usize) -> Self {
        Self { root: 0, text: String::new(), entries: Vec::with_capacity(size) }
    }

    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns a path and its kind, if it contains these letters.
    pub fn get(&self, at: u32, wanted: u64) -> Option<FoundPath<'_>> {
        let entry = self.entries.get(at as usize).filter(|entry| entry.letters & wanted == wanted)?;
        let start = match at.checked_sub(1) {
            Some(before) => self.entries.get(before as usize)?.end,
            None => 0,
        };
        let path = self.text.get(start as usize..entry.end as usize)?;
        Some(FoundPath { path, kind: entry.kind, is_link: entry.is_link })
    }

    /// Returns the directories and links, which determine what else a walk finds.
    pub fn directories_and_links(&self) -> impl Iterator<Item = FoundPath<'_>> {
        let all = (0..self.len()).filter_map(|at| self.get(at, 0));
        all.filter(|found| found.kind == PathKind::Directory || found.is_link)
    }

    fn push(&mut self, found: FoundPath<'_>) {
        let FoundPath { path, kind, is_link } = found;
        self.text.push_str(path);
        self.entries.push(PathEntry { letters: letters(path), end: self.text.len() as u32, kind, is_link });
    }
}

/// The visitor of one thread of a walk, which fills an index.
pub(super) struct IndexWriter<'i> {
    index: &'i PathIndex,
    chunk: PathChunk,
    size: usize,
}

impl<'i> IndexWriter<'i> {
    pub fn new(index: &'i PathIndex) -> Self {
        Self { index, chunk: PathChunk::new(FIRST_CHUNK), size: FIRST_CHUNK }
    }

    /// Adds the collected paths to the index. Returns false if there is no room for more.
    fn flush(&mut self) -> bool {
        self.size = (self.size * 2).min(MAX_CHUNK);
        let mut full = std::mem::replace(&mut self.chunk, PathChunk::new(self.size));
        full.text.shrink_to_fit();
        let has_room = self.index.add(full);
        if !has_room {
            self.missed();
            tracing::warn!("the paths of a file search reached their limit, the walk stops");
        }
        has_room
    }
}

impl WalkVisitor for IndexWriter<'_> {
    fn visit(&mut self, root: u32, found: FoundPath<'_>) -> bool {
        // A visitor has one root only.
        self.chunk.root = root;
        self.chunk.push(found);
        self.chunk.entries.len() < self.size || self.flush()
    }

    fn missed(&mut self) {
        self.index.is_incomplete.store(true, Ordering::Relaxed);
    }
}

impl Drop for IndexWriter<'_> {
    fn drop(&mut self) {
        if self.chunk.len() > 0 {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_takes_no_more_paths_than_the_limit() {
        let index = PathIndex::new(Arc::default());
        index.paths.store(MAX_PATHS - 1, Ordering::Relaxed);
        let mut filling = IndexWriter::new(&index);
        let found = FoundPath { path: "file", kind: PathKind::File, is_link: false };
        let taken = (0..1_000).take_while(|_| filling.visit(0, found)).count();
        assert_eq!(taken, FIRST_CHUNK - 1);
        drop(filling);
        index.finish();
        assert!(!index.is_whole());
    }
}
