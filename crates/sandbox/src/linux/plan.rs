//! What must be mounted where, and with Landlock allowed, for a policy: one plan for both ways of doing it.

use std::{
    collections::BTreeMap,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::sockets;
use crate::{
    ConfinementGap,
    access::{CommandAccess, RootRole},
    metadata::{self, ProjectMetadata},
    server_places::EntryKind,
};

/// What programs need to run at all, where reading is restricted. What is missing is left out.
pub(super) const PLATFORM: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/run/systemd/resolve",
    "/sys",
];

/// Devices that can be written by everyone without harm.
pub(super) const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// A policy, and what of the file system it touches.
#[derive(Clone, Debug)]
pub(crate) struct EnforcementPlan {
    pub access: CommandAccess,
    pub metadata: ProjectMetadata,
    pub sockets: Vec<PathBuf>,
    /// Whether a proxy is all that there is of the network. Then `access` has none.
    pub proxied: bool,
    pub gaps: Vec<ConfinementGap>,
}

/// Whether mounts do the part of the work that Landlock cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMeans {
    Mounted,
    LandlockOnly,
}

/// One mount on top of a file system that is read-only. Where two kinds meet at one path, the greater one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlannedMount {
    /// An entry of the server's home that commands may read.
    Readable,
    /// A writable root, or a folder in one that leads to something protected: what is mounted can be neither renamed
    /// nor removed.
    Writable,
    /// Protected metadata.
    ReadOnly,
    /// A socket, replaced by a file that is none.
    Covered,
    /// The server's home, replaced by an empty folder.
    Hidden,
}

impl EnforcementPlan {
    pub(crate) fn new(access: CommandAccess, files: FileMeans) -> Self {
        let metadata = metadata::find(&access.roots);
        // Unless a root is a socket, none can be connected to.
        let (sockets, all_sockets) = match files {
            FileMeans::Mounted if access.network && names_socket(&access) => {
                sockets::find(&access.roots, &access.hidden.sockets)
            }
            FileMeans::Mounted | FileMeans::LandlockOnly => (Vec::new(), true),
        };
        let mut gaps = Vec::new();
        gaps.extend((!all_sockets).then_some(ConfinementGap::Sockets));
        gaps.extend((!access.roots.is_empty()).then_some(ConfinementGap::NewMetadata));
        gaps.extend((!metadata.links.is_empty()).then_some(ConfinementGap::LinkedMetadata));
        gaps.extend(metadata.truncated.then_some(ConfinementGap::DeepRepositories));
        Self { access, metadata, sockets, proxied: false, gaps }
    }

    /// Whether commands may connect to a socket in the file system, because a root is one.
    pub(super) fn names_socket(&self) -> bool {
        names_socket(&self.access)
    }

    /// The mounts in an order in which none hides another: what is above comes first.
    pub(super) fn mounts(&self) -> BTreeMap<PathBuf, PlannedMount> {
        let mut mounts = BTreeMap::new();
        let mut add = |path: PathBuf, mount: PlannedMount| {
            let place = mounts.entry(path).or_insert(mount);
            *place = mount.max(*place);
        };
        let readable = self.access.hidden.readable.iter();
        let readable = readable.filter(|entry| !matches!(entry.kind, EntryKind::Link(_)));
        readable.for_each(|entry| add(entry.path.clone(), PlannedMount::Readable));
        self.access.roots.iter().for_each(|root| add(root.path.clone(), PlannedMount::Writable));
        self.metadata.paths.iter().for_each(|path| add(path.clone(), PlannedMount::ReadOnly));
        self.sockets.iter().for_each(|path| add(path.clone(), PlannedMount::Covered));
        self.access.hidden.home.iter().for_each(|path| add(path.clone(), PlannedMount::Hidden));
        let ways: Vec<_> = mounts.keys().flat_map(|path| self.way_to(path)).collect();
        for folder in ways {
            mounts.entry(folder).or_insert(PlannedMount::Writable);
        }
        mounts
    }

    /// The folders between a writable root and something in it. If one of them could be moved away, a command could
    /// put something else in its place.
    fn way_to(&self, path: &Path) -> Vec<PathBuf> {
        let is_writable = |folder: &&Path| {
            self.access.roots.iter().any(|root| folder.starts_with(&root.path) && *folder != root.path)
                && !self.metadata.paths.iter().any(|protected| folder.starts_with(protected))
                && !self.access.hidden.contains(folder)
        };
        path.ancestors().skip(1).filter(is_writable).map(Path::to_path_buf).collect()
    }

    /// What Landlock must not open, though it lies in what is opened.
    fn closed(&self) -> impl Iterator<Item = &PathBuf> {
        self.metadata.paths.iter().chain(&self.access.hidden.home)
    }

    /// Entries to allow one by one where a whole root cannot be, because it holds something protected.
    pub(super) fn writable_parts(&self) -> Vec<(PathBuf, RootRole)> {
        let mut parts = Vec::new();
        for root in &self.access.roots {
            let is_around = |path: &&PathBuf| !root.path.starts_with(path);
            let closed: Vec<_> = self.closed().filter(is_around).collect();
            let mut entries = Vec::new();
            split(&root.path, &closed, &mut entries);
            parts.extend(entries.into_iter().map(|path| (path, root.role)));
        }
        parts
    }

    /// The parts of a tree that can be read, where the server's home may lie in it.
    pub(super) fn readable_parts(&self, path: &Path) -> Vec<PathBuf> {
        let closed: Vec<_> = self.access.hidden.home.iter().collect();
        let mut parts = Vec::new();
        split(path, &closed, &mut parts);
        parts
    }
}

fn names_socket(access: &CommandAccess) -> bool {
    let is_socket = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    access.roots.iter().any(|root| is_socket(&root.path))
}

/// The largest parts of a tree that hold nothing of what is closed.
fn split(path: &Path, closed: &[&PathBuf], parts: &mut Vec<PathBuf>) {
    // A bound on the rules; what is beyond it stays closed.
    const MOST: usize = 4_096;
    if parts.len() == MOST || closed.iter().any(|closed| path.starts_with(closed)) {
        return;
    }
    if !closed.iter().any(|closed| closed.starts_with(path)) {
        return parts.push(path.to_path_buf());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
        split(&entry.path(), closed, parts);
    }
}

/// Whether programs need a path to run at all.
pub(crate) fn is_platform_path(path: &Path) -> bool {
    PLATFORM.iter().any(|platform| path.starts_with(platform))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        access::{ReadAccess, WritableRoot},
        server_places::HiddenPlaces,
    };

    fn plan(roots: &[(&str, RootRole)], protected: &[&str]) -> EnforcementPlan {
        let roots =
            roots.iter().map(|(path, role)| WritableRoot { path: path.into(), role: *role }).collect();
        EnforcementPlan {
            access: CommandAccess {
                reads: ReadAccess::Everywhere,
                roots,
                network: false,
                hidden: HiddenPlaces::default(),
            },
            metadata: ProjectMetadata {
                paths: protected.iter().map(PathBuf::from).collect(),
                ..ProjectMetadata::default()
            },
            sockets: vec!["/tmp/tmux/default".into()],
            proxied: false,
            gaps: vec![],
        }
    }

    #[test]
    fn mounts_come_from_the_outside_in() {
        use PlannedMount::*;
        let roots = [
            ("/h", RootRole::Workspace),
            ("/h/.codex/memories", RootRole::Named),
            ("/h/sub", RootRole::Named),
            ("/tmp", RootRole::Scratch),
        ];
        let plan = plan(&roots, &["/h/.codex", "/h/.git"]);
        let expected = [
            ("/h", Writable),
            ("/h/.codex", ReadOnly),
            ("/h/.codex/memories", Writable),
            ("/h/.git", ReadOnly),
            ("/h/sub", Writable),
            ("/tmp", Writable),
            ("/tmp/tmux", Writable),
            ("/tmp/tmux/default", Covered),
        ];
        assert_eq!(plan.mounts(), expected.map(|(path, mount)| (PathBuf::from(path), mount)).into());
    }

    #[test]
    fn folders_on_the_way_to_what_is_protected_are_held_in_place() {
        use PlannedMount::*;
        let roots = [("/tmp", RootRole::Scratch), ("/tmp/a/w", RootRole::Workspace)];
        let mut plan = plan(&roots, &["/tmp/a/w/x/y/.git"]);
        plan.sockets.clear();
        plan.access.hidden.home = Some("/tmp/b/home".into());
        let expected = [
            ("/tmp", Writable),
            ("/tmp/a", Writable),
            ("/tmp/a/w", Writable),
            ("/tmp/a/w/x", Writable),
            ("/tmp/a/w/x/y", Writable),
            ("/tmp/a/w/x/y/.git", ReadOnly),
            ("/tmp/b", Writable),
            ("/tmp/b/home", Hidden),
        ];
        assert_eq!(plan.mounts(), expected.map(|(path, mount)| (PathBuf::from(path), mount)).into());
    }

    #[test]
    fn a_root_with_metadata_is_split_into_its_other_entries() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in [".git", "src", "nested/.git", "nested/lib"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join("file"), "").unwrap();
        let path = |name: &str| base.join(name).to_str().unwrap().to_owned();
        let plan = plan(&[(&path(""), RootRole::Workspace)], &[&path(".git"), &path("nested/.git")]);
        let mut parts: Vec<_> = plan.writable_parts().into_iter().map(|(path, _)| path).collect();
        parts.sort();
        assert_eq!(parts, ["file", "nested/lib", "src"].map(|name| base.join(name)));
    }
}
