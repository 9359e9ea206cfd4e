//! Walks directories on several threads.

use std::{
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use codicil_protocol::FuzzyFileSearchMatchType;
use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

use super::roots::{SearchRoot, SearchRoots};

/// How many entries are visited between two checks for cancellation.
const CHECK_EVERY: usize = 64;

/// The visitor of one thread. It must deliver what it has collected when it is dropped.
pub(super) trait WalkVisitor: Send {
    /// Visits a path. Returns false to end the walk.
    fn visit(&mut self, root: u32, found: FoundPath<'_>) -> bool;

    /// Called if something could not be read, so that another walk may find more.
    fn missed(&mut self);
}

/// A path below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundPath<'e> {
    pub path: &'e str,
    pub kind: PathKind,
    pub is_link: bool,
}

impl FoundPath<'_> {
    fn is_directory_link(&self) -> bool {
        self.is_link && self.kind == PathKind::Directory
    }
}

/// The kind of file at a path, with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathKind {
    File,
    Directory,
}

impl From<PathKind> for FuzzyFileSearchMatchType {
    fn from(kind: PathKind) -> Self {
        match kind {
            PathKind::File => Self::File,
            PathKind::Directory => Self::Directory,
        }
    }
}

/// The conditions that end a walk early.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkLimits<'c> {
    pub cancelled: &'c CancellationToken,
    pub deadline: Instant,
}

impl WalkLimits<'_> {
    fn are_reached(&self) -> bool {
        self.cancelled.is_cancelled() || Instant::now() >= self.deadline
    }
}

/// Passes everything below the roots to visitors, one for each thread and root.
pub(super) fn walk<V: WalkVisitor>(
    roots: &SearchRoots,
    threads: usize,
    limits: WalkLimits<'_>,
    visitor: impl Fn() -> V + Sync,
) {
    for (number, root) in roots.iter() {
        if limits.are_reached() {
            return visitor().missed();
        }
        let prefix = prefix(&root.path);
        let links = LinkRules::new(&root.path);
        let links = &links;
        builder(root, threads).build_parallel().run(|| {
            let mut visitor = visitor();
            let mut seen = 0_usize;
            Box::new(move |entry| {
                seen += 1;
                if seen.is_multiple_of(CHECK_EVERY) && limits.are_reached() {
                    visitor.missed();
                    return WalkState::Quit;
                }
                // Directories that cannot be read, dangling links and cycles are skipped.
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        if may_pass(&error) {
                            visitor.missed();
                        }
                        return WalkState::Continue;
                    }
                };
                match relative(&entry, prefix) {
                    Some(found) if !visitor.visit(number, found) => WalkState::Quit,
                    Some(found) if found.is_directory_link() && !links.allow(entry.path()) => WalkState::Skip,
                    _ => WalkState::Continue,
                }
            })
        });
    }
}

/// The rule for following links to directories. Links to a directory below the same root are followed, which cannot make a
/// search larger than its root. A link below a followed link is not, because the number of paths through several links
/// grows without bound.
struct LinkRules {
    root: PathBuf,
    /// The root without links, or `None` if it does not exist.
    real_root: Option<PathBuf>,
}

impl LinkRules {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), real_root: fs::canonicalize(root).ok() }
    }

    fn allow(&self, link: &Path) -> bool {
        let (Some(real_root), Some(parent)) = (&self.real_root, link.parent()) else { return false };
        let Ok(way) = parent.strip_prefix(&self.root) else { return false };
        let is_reached_by_link = fs::canonicalize(parent).map_or(true, |real| real != real_root.join(way));
        !is_reached_by_link && fs::canonicalize(link).is_ok_and(|target| target.starts_with(real_root))
    }
}

/// Returns whether an error may disappear although nothing that was read has changed: no descriptor was free, or a link is
/// dangling.
fn may_pass(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| error.kind() != ErrorKind::PermissionDenied)
}

fn builder(root: &SearchRoot, threads: usize) -> WalkBuilder {
    let mut builder = WalkBuilder::new(&root.path);
    builder.threads(threads).hidden(false).follow_links(true);
    if !root.inner.is_empty() {
        let inner = root.inner.clone();
        builder.filter_entry(move |entry| inner.iter().all(|root| root != entry.path()));
    }
    builder
}

/// Returns how many bytes of a path below a root belong to the root.
fn prefix(root: &Path) -> usize {
    let root = root.as_os_str().as_bytes();
    root.len() + usize::from(!root.ends_with(b"/"))
}

/// Returns `None` for the root itself, and for a name that is not UTF-8, because a response cannot contain it.
fn relative(entry: &DirEntry, prefix: usize) -> Option<FoundPath<'_>> {
    let path = entry.path().as_os_str().as_bytes().get(prefix..)?;
    let path = str::from_utf8(path).ok().filter(|path| !path.is_empty())?;
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    let kind = if is_directory { PathKind::Directory } else { PathKind::File };
    Some(FoundPath { path, kind, is_link: entry.path_is_symlink() })
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc, time::Duration};

    use super::*;
    use crate::search::index::{IndexWriter, PathIndex};

    #[test]
    fn a_walk_that_is_out_of_time_is_not_whole() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..200 {
            fs::write(directory.path().join(number.to_string()), "").unwrap();
        }
        let roots = SearchRoots::new(&[directory.path().to_str().unwrap().to_owned()], Path::new("/"));
        let cancelled = CancellationToken::new();
        let walked = |deadline| {
            let index = PathIndex::new(Arc::default());
            walk(&roots, 1, WalkLimits { cancelled: &cancelled, deadline }, || IndexWriter::new(&index));
            index.finish();
            index.is_whole()
        };
        assert!(walked(Instant::now() + Duration::from_secs(60)));
        assert!(!walked(Instant::now()));
    }
}
