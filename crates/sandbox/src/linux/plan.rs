//! The plan to enforce a policy: what must be mounted where, and what Landlock must allow. One plan serves `bwrap` and
//! the built-in confinement.

use std::{
    collections::BTreeMap,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::sockets;
use crate::{
    ConfinementGap, ProxyPorts,
    access::{CommandAccess, RootRole},
    metadata::{self, ProjectMetadata},
    server_places::EntryKind,
};

/// Paths that programs need to run at all, where reading is restricted. Missing ones are left out.
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

/// Devices that every command may write.
pub(super) const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// A resolved policy with the metadata to protect and the sockets to cover.
#[derive(Clone, Debug)]
pub(crate) struct EnforcementPlan {
    pub access: CommandAccess,
    pub metadata: ProjectMetadata,
    pub sockets: Vec<PathBuf>,
    /// The ports of the proxy, if the command is behind one. `access` then has no network.
    pub proxy: Option<ProxyPorts>,
    pub gaps: Vec<ConfinementGap>,
}

/// Whether files are confined by mounts or by Landlock alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMeans {
    Mounted,
    LandlockOnly,
}

/// A mount over the read-only file system. If two kinds are planned for one path, the greater one is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PlannedMount {
    /// An entry of the server's home that commands may read.
    Readable,
    /// A writable root, or a folder between a root and something protected in it. A mount point can be neither renamed
    /// nor removed.
    Writable,
    /// Protected metadata.
    ReadOnly,
    /// A socket, replaced by a file that is not a socket.
    Covered,
    /// The server's home, replaced by an empty folder.
    Hidden,
}

impl EnforcementPlan {
    pub(crate) fn new(access: CommandAccess, files: FileMeans) -> Self {
        let metadata = metadata::find(&access.roots);
        // Unless a root is a socket, the filter refuses all sockets in the file system.
        let (sockets, has_all_sockets) = match files {
            FileMeans::Mounted if access.network && has_socket_root(&access) => {
                sockets::find(&access.roots, &access.hidden.sockets)
            }
            FileMeans::Mounted | FileMeans::LandlockOnly => (Vec::new(), true),
        };
        let mut gaps = Vec::new();
        gaps.extend((!has_all_sockets).then_some(ConfinementGap::Sockets));
        gaps.extend((!access.roots.is_empty()).then_some(ConfinementGap::NewMetadata));
        gaps.extend((!metadata.links.is_empty()).then_some(ConfinementGap::LinkedMetadata));
        gaps.extend(metadata.truncated.then_some(ConfinementGap::DeepRepositories));
        Self { access, metadata, sockets, proxy: None, gaps }
    }

    /// Returns whether a writable root is a socket, so that commands may connect to sockets in the file system.
    pub(super) fn has_socket_root(&self) -> bool {
        has_socket_root(&self.access)
    }

    /// Returns the mounts by path, which is the order to make them in: a folder comes before what is inside it.
    pub(super) fn mounts(&self) -> BTreeMap<PathBuf, PlannedMount> {
        let mut mounts = BTreeMap::new();
        let mut add = |path: PathBuf, mount: PlannedMount| {
            let planned = mounts.entry(path).or_insert(mount);
            *planned = mount.max(*planned);
        };
        let readable = self.access.hidden.readable.iter();
        let readable = readable.filter(|entry| !matches!(entry.kind, EntryKind::Link(_)));
        readable.for_each(|entry| add(entry.path.clone(), PlannedMount::Readable));
        self.access.roots.iter().for_each(|root| add(root.path.clone(), PlannedMount::Writable));
        self.metadata.paths.iter().for_each(|path| add(path.clone(), PlannedMount::ReadOnly));
        self.sockets.iter().for_each(|path| add(path.clone(), PlannedMount::Covered));
        self.access.hidden.home.iter().for_each(|path| add(path.clone(), PlannedMount::Hidden));
        let between: Vec<_> = mounts.keys().flat_map(|path| self.folders_between(path)).collect();
        for folder in between {
            mounts.entry(folder).or_insert(PlannedMount::Writable);
        }
        mounts
    }

    /// Returns the folders between a writable root and a path in it. They become mount points, because a command that
    /// could move one of them away could replace it by something else.
    fn folders_between(&self, path: &Path) -> Vec<PathBuf> {
        let is_writable = |folder: &&Path| {
            self.access.roots.iter().any(|root| folder.starts_with(&root.path) && *folder != root.path)
                && !self.metadata.paths.iter().any(|protected| folder.starts_with(protected))
                && !self.access.hidden.contains(folder)
        };
        path.ancestors().skip(1).filter(is_writable).map(Path::to_path_buf).collect()
    }

    /// Returns the entries of the writable roots that Landlock can allow. A root that contains something protected is
    /// split into its other entries.
    pub(super) fn writable_parts(&self) -> Vec<(PathBuf, RootRole)> {
        let mut parts = Vec::new();
        for root in &self.access.roots {
            let protected = self.metadata.paths.iter().chain(&self.access.hidden.home);
            let excluded: Vec<_> = protected.filter(|path| !root.path.starts_with(path)).collect();
            let mut entries = Vec::new();
            split_around(&root.path, &excluded, &mut entries);
            parts.extend(entries.into_iter().map(|path| (path, root.role)));
        }
        parts
    }

    /// Returns the parts of a tree that can be read: all of it, without the server's home.
    pub(super) fn readable_parts(&self, path: &Path) -> Vec<PathBuf> {
        let excluded: Vec<_> = self.access.hidden.home.iter().collect();
        let mut parts = Vec::new();
        split_around(path, &excluded, &mut parts);
        parts
    }
}

fn has_socket_root(access: &CommandAccess) -> bool {
    let is_socket = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    access.roots.iter().any(|root| is_socket(&root.path))
}

/// Adds the largest parts of a tree that contain none of the excluded paths. Limited in number; further parts are not
/// allowed to commands.
fn split_around(path: &Path, excluded: &[&PathBuf], parts: &mut Vec<PathBuf>) {
    const MAX_PARTS: usize = 4_096;
    if parts.len() == MAX_PARTS || excluded.iter().any(|excluded| path.starts_with(excluded)) {
        return;
    }
    if !excluded.iter().any(|excluded| excluded.starts_with(path)) {
        return parts.push(path.to_path_buf());
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
        split_around(&entry.path(), excluded, parts);
    }
}

/// Returns whether programs need a path to run at all.
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
            proxy: None,
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
    fn folders_between_a_root_and_protected_paths_are_mount_points() {
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
