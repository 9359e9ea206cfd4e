//! The paths that a walk has found, packed tightly: some 60 bytes each.

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

/// Paths of the first chunk of a thread. It is small, so that there is something to show soon; each one
/// after it is twice as large.
const FIRST_CHUNK: usize = 64;
const MAX_CHUNK: usize = 4096;

/// What one entry takes beside its path.
const ENTRY_BYTES: usize = size_of::<PathEntry>();

/// All paths of a walk. It grows while the walk goes on and never shrinks.
#[derive(Debug)]
pub(super) struct PathIndex {
    chunks: RwLock<Vec<Arc<PathChunk>>>,
    complete: AtomicBool,
    /// Something that could have been found is missing.
    lacking: AtomicBool,
    /// Woken when there is more, and when that was all.
    pub grown: Notify,
    /// Bytes of this index, which are also part of what all of them hold.
    bytes: AtomicUsize,
    paths: AtomicUsize,
    held: Arc<AtomicUsize>,
}

/// Some paths, all below one root.
#[derive(Debug)]
pub(super) struct PathChunk {
    pub root: u32,
    text: String,
    entries: Vec<PathEntry>,
}

#[derive(Clone, Copy, Debug)]
struct PathEntry {
    letters: u64,
    /// Where the path ends; it begins where the one before it ends.
    end: u32,
    kind: PathKind,
    is_link: bool,
}

impl PathIndex {
    pub fn new(held: Arc<AtomicUsize>) -> Self {
        Self {
            chunks: RwLock::default(),
            complete: AtomicBool::new(false),
            lacking: AtomicBool::new(false),
            grown: Notify::new(),
            bytes: AtomicUsize::new(0),
            paths: AtomicUsize::new(0),
            held,
        }
    }

    /// The chunks there are, and whether there will be no more.
    pub fn chunks(&self) -> (Vec<Arc<PathChunk>>, bool) {
        // In this order: what is added before the end has been seen must not be missed.
        let complete = self.complete.load(Ordering::Acquire);
        (self.chunks.read().clone(), complete)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the walk is over and has seen everything.
    pub fn is_whole(&self) -> bool {
        self.complete.load(Ordering::Acquire) && !self.lacking.load(Ordering::Relaxed)
    }

    /// Says that the walk is over.
    pub fn finish(&self) {
        self.complete.store(true, Ordering::Release);
        self.grown.notify_one();
    }

    /// False when there is no room for more.
    fn add(&self, chunk: PathChunk) -> bool {
        let bytes = chunk.text.len() + chunk.entries.len() * ENTRY_BYTES;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let paths = self.paths.fetch_add(chunk.entries.len(), Ordering::Relaxed) + chunk.entries.len();
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.chunks.write().push(Arc::new(chunk));
        self.grown.notify_one();
        held < MAX_INDEX_BYTES && paths < MAX_PATHS
    }
}

impl Drop for PathIndex {
    fn drop(&mut self) {
        self.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl PathChunk {
    fn new(size: usize) -> Self {
        Self { root: 0, text: String::new(), entries: Vec::with_capacity(size) }
    }

    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// A path and what it is, if it contains these letters.
    pub fn get(&self, at: u32, wanted: u64) -> Option<FoundPath<'_>> {
        let entry = self.entries.get(at as usize).filter(|entry| entry.letters & wanted == wanted)?;
        let start = match at.checked_sub(1) {
            Some(before) => self.entries.get(before as usize)?.end,
            None => 0,
        };
        let path = self.text.get(start as usize..entry.end as usize)?;
        Some(FoundPath { path, kind: entry.kind, is_link: entry.is_link })
    }

    /// The directories and links, on which it depends what else is found.
    pub fn landmarks(&self) -> impl Iterator<Item = FoundPath<'_>> {
        let all = (0..self.len()).filter_map(|at| self.get(at, 0));
        all.filter(|found| found.kind == PathKind::Directory || found.is_link)
    }

    fn push(&mut self, found: FoundPath<'_>) {
        let FoundPath { path, kind, is_link } = found;
        self.text.push_str(path);
        self.entries.push(PathEntry { letters: letters(path), end: self.text.len() as u32, kind, is_link });
    }
}

/// One thread of a walk that fills an index.
pub(super) struct IndexWriter<'i> {
    index: &'i PathIndex,
    chunk: PathChunk,
    size: usize,
}

impl<'i> IndexWriter<'i> {
    pub fn new(index: &'i PathIndex) -> Self {
        Self { index, chunk: PathChunk::new(FIRST_CHUNK), size: FIRST_CHUNK }
    }

    fn hand_over(&mut self) -> bool {
        self.size = (self.size * 2).min(MAX_CHUNK);
        let mut full = std::mem::replace(&mut self.chunk, PathChunk::new(self.size));
        full.text.shrink_to_fit();
        let has_room = self.index.add(full);
        if !has_room {
            self.missed();
            tracing::warn!("a search has no room for more files and looks no further");
        }
        has_room
    }
}

impl WalkVisitor for IndexWriter<'_> {
    fn visit(&mut self, root: u32, found: FoundPath<'_>) -> bool {
        // A visitor never sees another root.
        self.chunk.root = root;
        self.chunk.push(found);
        self.chunk.entries.len() < self.size || self.hand_over()
    }

    fn missed(&mut self) {
        self.index.lacking.store(true, Ordering::Relaxed);
    }
}

impl Drop for IndexWriter<'_> {
    fn drop(&mut self) {
        if self.chunk.len() > 0 {
            self.hand_over();
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
