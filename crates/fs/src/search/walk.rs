//! Walking directories, on several threads.

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

/// Entries between two looks at whether anybody still wants to know.
const CHECK_EVERY: usize = 64;

/// One thread's eyes. What it has gathered it must hand over when it is dropped.
pub(super) trait WalkVisitor: Send {
    /// False to end the walk.
    fn visit(&mut self, root: u32, found: FoundPath<'_>) -> bool;

    /// Something could not be looked at; another walk might find more.
    fn missed(&mut self);
}

/// Something below a root.
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

/// What was found at a path, links followed.
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

/// What ends a walk before it has seen everything.
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

/// Shows everything below the roots to visitors, one for each thread and root.
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
                // What cannot be read, and links that lead nowhere or in circles, are not there to be found.
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

/// Which links to directories are followed: those that lead to somewhere below the same root, where they
/// cannot make a search larger than its root. A link below a followed link is not followed, since the number
/// of ways through several links grows without bound.
struct LinkRules {
    root: PathBuf,
    /// The root without links; `None` if there is nothing.
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

/// Whether an error need not be there the next time although nothing that was read has changed: there was no
/// descriptor left, or a link leads nowhere yet.
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

/// How many bytes of a path below a root are the root's.
fn prefix(root: &Path) -> usize {
    let root = root.as_os_str().as_bytes();
    root.len() + usize::from(!root.ends_with(b"/"))
}

/// `None` for the root itself, and for a name that is not text: it could not be written down.
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
