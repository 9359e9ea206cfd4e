//! What may be read and written in the name of a command, for what the server does itself: patches and images.
//!
//! The answer comes from the same lists that confine commands (`access.rs`, `metadata.rs`), so a patch can change
//! what a command could change, and nothing else.

use std::{
    path::{Component, Path},
    sync::OnceLock,
};

use crate::{
    AccessRequest, SandboxError,
    access::{self, CommandAccess, PolicyScope, ReadAccess, WritableRoot},
    metadata::{self, ProjectMetadata},
};

/// The files that a policy opens. Paths that are asked about must be absolute and free of links.
#[derive(Clone, Debug)]
pub struct FileAccess(Option<ConfinedAccess>);

#[derive(Clone, Debug)]
struct ConfinedAccess {
    access: CommandAccess,
    /// Searched for when something is to be written.
    metadata: OnceLock<ProjectMetadata>,
}

impl FileAccess {
    /// Looks at the disk to find out where roots lead.
    pub fn new(request: &AccessRequest<'_>) -> Result<Self, SandboxError> {
        Ok(Self(match access::scope(request)? {
            PolicyScope::Unconfined | PolicyScope::External { .. } => None,
            PolicyScope::Confined(access) => Some(ConfinedAccess { access, metadata: OnceLock::new() }),
        }))
    }

    /// Whether a file at this place may be written, made or removed. Searches the roots for what is protected.
    pub fn can_write(&self, place: &Path) -> bool {
        let Some(ConfinedAccess { access, metadata }) = &self.0 else { return true };
        let Some(root) = deepest_root(access, place) else { return false };
        let metadata = metadata.get_or_init(|| metadata::find(&access.roots));
        let is_outside = |protected: &Path| !place.starts_with(protected) || root.path.starts_with(protected);
        is_plain(place)
            && !has_protected_name(&root.path, place)
            && metadata.paths.iter().all(|path| is_outside(path))
            && (!access.hidden.contains(place) || access.hidden.contains(&root.path))
    }

    /// Whether a file at this place may be read.
    pub fn can_read(&self, place: &Path) -> bool {
        let Some(ConfinedAccess { access, .. }) = &self.0 else { return true };
        let root = deepest_root(access, place);
        let is_open = root.is_some()
            || match &access.reads {
                ReadAccess::Everywhere => true,
                ReadAccess::Only { platform, roots } => {
                    roots.iter().any(|root| place.starts_with(root))
                        || (*platform && crate::platform::is_platform_path(place))
                }
            };
        let is_hidden = access.hidden.contains(place)
            && !access.hidden.is_readable(place)
            && !root.is_some_and(|root| access.hidden.contains(&root.path));
        is_plain(place) && is_open && !is_hidden
    }
}

fn deepest_root<'a>(access: &'a CommandAccess, place: &Path) -> Option<&'a WritableRoot> {
    let around = access.roots.iter().filter(|root| place.starts_with(&root.path));
    around.max_by_key(|root| root.path.as_os_str().len())
}

/// A place that leads upwards is in no tree.
fn is_plain(place: &Path) -> bool {
    place.is_absolute() && !place.components().any(|part| part == Component::ParentDir)
}

/// Protected names count below the root only: one may work inside such a folder if it is named as a root.
fn has_protected_name(root: &Path, place: &Path) -> bool {
    let Ok(below) = place.strip_prefix(root) else { return true };
    // Some file systems do not tell `.GIT` from `.git`.
    below.iter().any(|part| metadata::NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use codicil_protocol::{AbsolutePathBuf, ReadOnlyAccess, SandboxPolicy};

    use super::*;
    use crate::{RootCache, SandboxGrants, ServerPlaces};

    struct Place {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl Place {
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
    fn writing_ends_at_roots_metadata_and_the_home() {
        let place =
            Place::new(&["w/.git", "w/sub/.git", "w/meta/objects", "w/home/memories", "w/.codex/memories"]);
        fs::create_dir_all(place.base.join("w/apart")).unwrap();
        fs::write(place.base.join("w/apart/.git"), "gitdir: ../meta\n").unwrap();
        let access = place.access(&["w/.codex/memories", "w/home/memories"], &[]);
        place.check(
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
    fn reading_ends_at_roots_and_the_home() {
        let place = Place::new(&["w/home/skills", "read", "secret"]);
        let everywhere = place.access(&[], &[]);
        place.check(
            |path| everywhere.can_read(path),
            &[("secret/x", true), ("w/home/auth.json", false), ("w/home/skills/x", true), ("w/x", true)],
        );
        let restricted = place.access(&[], &["read"]);
        place.check(
            |path| restricted.can_read(path),
            &[("secret/x", false), ("read/x", true), ("w/x", true), ("w/home/auth.json", false)],
        );
        assert!(restricted.can_read(Path::new("/usr/share/x")));
    }
}
