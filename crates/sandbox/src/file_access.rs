//! The files that the server itself may read and write for a model: patches and images.
//!
//! The answers come from the lists that confine commands (`access.rs`, `metadata.rs`), so a patch can change exactly
//! what a command could change.

use std::{
    path::{Component, Path},
    sync::OnceLock,
};

use crate::{
    AccessRequest, SandboxError,
    access::{self, CommandAccess, PolicyScope, ReadAccess, WritableRoot},
    metadata::{self, ProjectMetadata},
};

/// The files that a policy allows to read and write. Paths passed to it must be absolute and without symbolic links.
#[derive(Clone, Debug)]
pub struct FileAccess(Option<ConfinedAccess>);

#[derive(Clone, Debug)]
struct ConfinedAccess {
    access: CommandAccess,
    /// Found when the first path is checked for writing.
    metadata: OnceLock<ProjectMetadata>,
}

impl FileAccess {
    /// Resolves the roots of a policy. Reads the disk.
    pub fn new(request: &AccessRequest<'_>) -> Result<Self, SandboxError> {
        Ok(Self(match access::policy_scope(request)? {
            PolicyScope::Unconfined | PolicyScope::External { .. } => None,
            PolicyScope::Confined(access) => Some(ConfinedAccess { access, metadata: OnceLock::new() }),
        }))
    }

    /// Returns whether the file at a path may be written, created or removed. The first call searches the roots for
    /// protected metadata.
    pub fn can_write(&self, path: &Path) -> bool {
        let Some(ConfinedAccess { access, metadata }) = &self.0 else { return true };
        let Some(root) = deepest_root(access, path) else { return false };
        let metadata = metadata.get_or_init(|| metadata::find(&access.roots));
        let is_outside = |protected: &Path| !path.starts_with(protected) || root.path.starts_with(protected);
        is_normalized(path)
            && !has_protected_name(&root.path, path)
            && metadata.paths.iter().all(|protected| is_outside(protected))
            && (!access.hidden.contains(path) || access.hidden.contains(&root.path))
    }

    /// Returns whether the file at a path may be read.
    pub fn can_read(&self, path: &Path) -> bool {
        let Some(ConfinedAccess { access, .. }) = &self.0 else { return true };
        let root = deepest_root(access, path);
        let is_allowed = root.is_some()
            || match &access.reads {
                ReadAccess::Everywhere => true,
                ReadAccess::Only { platform, roots } => {
                    roots.iter().any(|root| path.starts_with(root))
                        || (*platform && crate::platform::is_platform_path(path))
                }
            };
        let is_hidden = access.hidden.contains(path)
            && !access.hidden.is_readable(path)
            && !root.is_some_and(|root| access.hidden.contains(&root.path));
        is_normalized(path) && is_allowed && !is_hidden
    }
}

fn deepest_root<'a>(access: &'a CommandAccess, path: &Path) -> Option<&'a WritableRoot> {
    let containing = access.roots.iter().filter(|root| path.starts_with(&root.path));
    containing.max_by_key(|root| root.path.as_os_str().len())
}

/// Returns whether a path can be compared by its text. With `..`, it could leave the tree that it begins with.
fn is_normalized(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Returns whether a protected name occurs below the root. In the root's own path it is allowed, because a protected
/// folder may be named as a root.
fn has_protected_name(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root) else { return true };
    // On some file systems `.GIT` and `.git` are the same file.
    below.iter().any(|part| metadata::NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use codicil_protocol::{AbsolutePathBuf, ReadOnlyAccess, SandboxPolicy};

    use super::*;
    use crate::{RootCache, SandboxGrants, ServerPlaces};

    struct TestTree {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl TestTree {
        fn new(folders: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let base = dir.path().canonicalize().unwrap();
            folders.iter().for_each(|folder| fs::create_dir_all(base.join(folder)).unwrap());
            Self { _dir: dir, base }
        }

        fn access(&self, named: &[&str], reads: &[&str]) -> FileAccess {
            let paths = |names: &[&str]| -> Vec<_> {
                names.iter().filter_map(|name| AbsolutePathBuf::new(self.base.join(name))).collect()
            };
            let read_only_access = match reads {
                [] => ReadOnlyAccess::FullAccess,
                some => ReadOnlyAccess::Restricted {
                    include_platform_defaults: true,
                    readable_roots: paths(some),
                },
            };
            let policy = SandboxPolicy::WorkspaceWrite {
                writable_roots: paths(named),
                read_only_access,
                network_access: false,
                exclude_tmpdir_env_var: true,
                exclude_slash_tmp: true,
            };
            FileAccess::new(&AccessRequest {
                policy: &policy,
                workspace: &self.base.join("w"),
                grants: &SandboxGrants::default(),
                roots: &RootCache::default(),
                server: &ServerPlaces::new(&self.base.join("w/home")),
            })
            .unwrap()
        }

        fn check(&self, allowed: impl Fn(&Path) -> bool, rows: &[(&str, bool)]) {
            for (name, expected) in rows {
                assert_eq!(allowed(&self.base.join(name)), *expected, "{name}");
            }
        }
    }

    #[test]
    fn writing_is_limited_to_roots_without_metadata_and_home() {
        let tree = TestTree::new(&[
            "w/.git",
            "w/sub/.git",
            "w/meta/objects",
            "w/home/memories",
            "w/.codex/memories",
        ]);
        fs::create_dir_all(tree.base.join("w/worktree")).unwrap();
        fs::write(tree.base.join("w/worktree/.git"), "gitdir: ../meta\n").unwrap();
        let access = tree.access(&["w/.codex/memories", "w/home/memories"], &[]);
        tree.check(
            |path| access.can_write(path),
            &[
                ("w/file", true),
                ("w/new/deep/file", true),
                ("w/sub/file", true),
                ("w/.git/config", false),
                ("w/.GIT/config", false),
                ("w/sub/.git/hooks/x", false),
                ("w/new/.codicil/config.toml", false),
                ("w/meta/config", false),
                ("w/metal", true),
                ("w/.codex/config.toml", false),
                ("w/.codex/memories/note", true),
                ("w/home/config.toml", false),
                ("w/home/skills/x", false),
                ("w/home/memories/note", true),
                ("w/../other", false),
                ("other", false),
            ],
        );
    }

    #[test]
    fn reading_is_limited_to_roots_without_the_home() {
        let tree = TestTree::new(&["w/home/skills", "read", "secret"]);
        let everywhere = tree.access(&[], &[]);
        tree.check(
            |path| everywhere.can_read(path),
            &[("secret/x", true), ("w/home/auth.json", false), ("w/home/skills/x", true), ("w/x", true)],
        );
        let restricted = tree.access(&[], &["read"]);
        tree.check(
            |path| restricted.can_read(path),
            &[("secret/x", false), ("read/x", true), ("w/x", true), ("w/home/auth.json", false)],
        );
        assert!(restricted.can_read(Path::new("/usr/share/x")));
    }
}
