//! What must be mounted where, and with Landlock allowed, for a policy: one plan for both ways of doing it.

use std::path::{Path, PathBuf};

use super::sockets;
use crate::{
    Gap,
    access::{Access, Role, Root},
    metadata::{self, Metadata},
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
pub(crate) struct Plan {
    pub access: Access,
    pub metadata: Metadata,
    pub sockets: Vec<PathBuf>,
    /// Whether a proxy is all that there is of the network. Then `access` has none.
    pub proxied: bool,
    pub gaps: Vec<Gap>,
}

/// Whether mounts do the part of the work that Landlock cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    Mounted,
    LandlockOnly,
}

/// One mount on top of a file system that is read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mount {
    /// Protected metadata.
    ReadOnly,
    /// A writable root.
    Writable,
    /// A socket, hidden by a file that is none.
    Covered,
}

impl Plan {
    pub(crate) fn new(access: Access, files: Files) -> Self {
        let metadata = metadata::find(&access.roots);
        let (sockets, all_sockets) = match files {
            Files::Mounted => sockets::find(&access.roots),
            Files::LandlockOnly => (Vec::new(), true),
        };
        let mut gaps = Vec::new();
        gaps.extend((!all_sockets).then_some(Gap::Sockets));
        gaps.extend((!access.roots.is_empty()).then_some(Gap::NewMetadata));
        gaps.extend((!metadata.links.is_empty()).then_some(Gap::LinkedMetadata));
        gaps.extend(metadata.truncated.then_some(Gap::DeepRepositories));
        Self { access, metadata, sockets, proxied: false, gaps }
    }

    /// The mounts in an order in which none hides another: what is above comes first.
    pub(super) fn mounts(&self) -> Vec<(&Path, Mount)> {
        let roots = self.access.roots.iter().filter(|root| !self.is_part_of_another(root));
        let mut mounts: Vec<_> = roots.map(|root| (root.path.as_path(), Mount::Writable)).collect();
        mounts.extend(self.metadata.paths.iter().map(|path| (path.as_path(), Mount::ReadOnly)));
        mounts.extend(self.sockets.iter().map(|path| (path.as_path(), Mount::Covered)));
        mounts.sort();
        mounts
    }

    /// A mount of its own would only make renames between the two fail.
    fn is_part_of_another(&self, root: &Root) -> bool {
        self.access.roots.iter().any(|other| {
            let protected = |path: &PathBuf| path.starts_with(&other.path) && root.path.starts_with(path);
            other.path != root.path
                && root.path.starts_with(&other.path)
                && !self.metadata.paths.iter().any(protected)
        })
    }

    /// Entries to allow one by one where a whole root cannot be, because it holds something protected.
    pub(super) fn writable_parts(&self) -> Vec<(PathBuf, Role)> {
        let mut parts = Vec::new();
        for root in &self.access.roots {
            self.split(&root.path, root.role, &mut parts);
        }
        parts
    }

    fn split(&self, path: &Path, role: Role, parts: &mut Vec<(PathBuf, Role)>) {
        // A bound on the rules; what is beyond it stays read-only.
        const MOST: usize = 4_096;
        if parts.len() == MOST {
            return;
        }
        let inside = |protected: &&PathBuf| protected.starts_with(path);
        match self.metadata.paths.iter().find(inside) {
            None => parts.push((path.to_path_buf(), role)),
            Some(protected) if protected == path => {}
            Some(_) => {
                let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
                for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink())) {
                    self.split(&entry.path(), role, parts);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::access::Reads;

    fn plan(roots: &[(&str, Role)], protected: &[&str]) -> Plan {
        let roots = roots.iter().map(|(path, role)| Root { path: path.into(), role: *role }).collect();
        Plan {
            access: Access { reads: Reads::Everywhere, roots, network: false },
            metadata: Metadata {
                paths: protected.iter().map(PathBuf::from).collect(),
                ..Metadata::default()
            },
            sockets: vec!["/tmp/tmux/default".into()],
            proxied: false,
            gaps: vec![],
        }
    }

    #[test]
    fn mounts_come_from_the_outside_in() {
        use Mount::*;
        let roots = [
            ("/h", Role::Workspace),
            ("/h/.codex/memories", Role::Named),
            ("/h/sub", Role::Named),
            ("/tmp", Role::Scratch),
        ];
        let plan = plan(&roots, &["/h/.codex", "/h/.git"]);
        let expected = [
            ("/h", Writable),
            ("/h/.codex", ReadOnly),
            ("/h/.codex/memories", Writable),
            ("/h/.git", ReadOnly),
            ("/tmp", Writable),
            ("/tmp/tmux/default", Covered),
        ];
        assert_eq!(plan.mounts(), expected.map(|(path, mount)| (Path::new(path), mount)));
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
        let plan = plan(&[(&path(""), Role::Workspace)], &[&path(".git"), &path("nested/.git")]);
        let mut parts: Vec<_> = plan.writable_parts().into_iter().map(|(path, _)| path).collect();
        parts.sort();
        assert_eq!(parts, ["file", "nested/lib", "src"].map(|name| base.join(name)));
    }
}
