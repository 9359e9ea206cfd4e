//! From a policy to plain lists: what can be read, what written, whether there is a network.
//!
//! Everything here is resolved against the file system as it is now: paths are free of links, and what does not
//! exist is left out, because nothing is created for a command's sake.

use std::path::{Path, PathBuf};

use codicil_protocol::{NetworkAccess, ReadOnlyAccess, SandboxPolicy};

use crate::{RootCache, SandboxError, SandboxGrants, ServerPlaces, server_places::HiddenPlaces};

/// Everything that decides what a command, or a patch, may read and write.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    pub policy: &'a SandboxPolicy,
    /// The working directory of the thread or of the server, from its settings. Never one that a model names.
    pub workspace: &'a Path,
    /// What was granted beyond the policy.
    pub grants: &'a SandboxGrants,
    /// Where the paths of earlier requests of the same thread led.
    pub roots: &'a RootCache,
    /// What belongs to the server.
    pub server: &'a ServerPlaces,
}

/// What a policy comes down to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyScope {
    Unconfined,
    External { network: bool },
    Confined(CommandAccess),
}

/// What a confined command can reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandAccess {
    pub reads: ReadAccess,
    /// Shortest path first, none twice.
    pub roots: Vec<WritableRoot>,
    pub network: bool,
    /// What of the server is out of reach.
    pub hidden: HiddenPlaces,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    Everywhere,
    /// The writable roots come on top.
    Only {
        platform: bool,
        roots: Vec<PathBuf>,
    },
}

/// A file or directory tree that can be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WritableRoot {
    pub path: PathBuf,
    pub role: RootRole,
}

/// Why a root is one. The strongest reason counts if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RootRole {
    /// `/tmp` or `$TMPDIR`: shared with strangers, and not searched for repositories.
    Scratch,
    /// The working directory.
    Workspace,
    /// Named by the policy or a grant. If it is itself a protected folder, that was meant.
    Named,
}

/// Reads a policy, with what was granted on top.
pub(crate) fn scope(request: &AccessRequest<'_>) -> Result<PolicyScope, SandboxError> {
    match request.policy {
        SandboxPolicy::DangerFullAccess => Ok(PolicyScope::Unconfined),
        SandboxPolicy::ExternalSandbox { network_access } => Ok(PolicyScope::External {
            network: *network_access == NetworkAccess::Enabled || request.grants.network,
        }),
        SandboxPolicy::ReadOnly { access, network_access } => {
            confined(request, access, *network_access, Vec::new())
        }
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read_only_access,
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        } => {
            let mut asked = vec![(request.workspace.to_path_buf(), RootRole::Workspace)];
            asked.extend(writable_roots.iter().map(|root| (root.to_path_buf(), RootRole::Named)));
            asked.extend((!exclude_slash_tmp).then(|| ("/tmp".into(), RootRole::Scratch)));
            asked.extend(temporary_directory(*exclude_tmpdir_env_var).map(|path| (path, RootRole::Scratch)));
            confined(request, read_only_access, *network_access, asked)
        }
        SandboxPolicy::Unrecognized(policy) => Err(SandboxError::UnknownPolicy(policy.to_string())),
    }
}

fn confined(
    request: &AccessRequest<'_>,
    access: &ReadOnlyAccess,
    network: bool,
    mut asked: Vec<(PathBuf, RootRole)>,
) -> Result<PolicyScope, SandboxError> {
    asked.extend(request.grants.writable.iter().map(|path| (path.clone(), RootRole::Named)));
    let hidden = request.server.resolve();
    let mut roots = roots(&asked, request.roots)?;
    roots.retain(|root| hidden.home.as_ref() != Some(&root.path));
    Ok(PolicyScope::Confined(CommandAccess {
        reads: reads(access, request, &roots)?,
        roots,
        network: network || request.grants.network,
        hidden,
    }))
}

fn temporary_directory(excluded: bool) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("TMPDIR")?);
    (!excluded && path.is_absolute()).then_some(path)
}

/// The workspace can always be read: a command that cannot look around is of no use. As with writing, a link that a
/// command may have made opens nothing.
fn reads(
    access: &ReadOnlyAccess,
    request: &AccessRequest<'_>,
    writable: &[WritableRoot],
) -> Result<ReadAccess, SandboxError> {
    match access {
        ReadOnlyAccess::FullAccess => Ok(ReadAccess::Everywhere),
        ReadOnlyAccess::Restricted { include_platform_defaults, readable_roots } => {
            let named = readable_roots.iter().map(|root| root.to_path_buf());
            let granted = request.grants.readable.iter().cloned();
            let asked = named.chain(granted).chain([request.workspace.to_path_buf()]);
            let planted = |home: &PathBuf| writable.iter().any(|root| home.starts_with(&root.path));
            let mut roots: Vec<_> = asked
                .filter_map(|path| request.roots.resolve(&path))
                .filter(|place| !place.link_homes.iter().any(planted))
                .map(|place| place.path)
                .collect();
            roots.sort();
            roots.dedup();
            Ok(ReadAccess::Only { platform: *include_platform_defaults, roots })
        }
        ReadOnlyAccess::Unrecognized(access) => Err(SandboxError::UnknownPolicy(access.to_string())),
    }
}

/// Resolves what was asked for. Left out: what is missing, what only a link in another root makes one,
/// and a workspace inside a repository's metadata.
fn roots(asked: &[(PathBuf, RootRole)], cache: &RootCache) -> Result<Vec<WritableRoot>, SandboxError> {
    let resolved: Vec<_> =
        asked.iter().filter_map(|(path, role)| Some((cache.resolve(path)?, *role))).collect();
    let mut roots = Vec::new();
    for (index, (place, role)) in resolved.iter().enumerate() {
        let others = resolved.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others = others.map(|(_, (other, _))| &other.path);
        if others.any(|other| place.link_homes.iter().any(|home| home.starts_with(other))) {
            continue;
        }
        if *role == RootRole::Workspace && place.path.iter().any(|name| name == ".git") {
            continue;
        }
        roots.extend(spread(&place.path)?.into_iter().map(|path| WritableRoot { path, role: *role }));
    }
    roots.sort_by(|a, b| a.path.cmp(&b.path).then(b.role.cmp(&a.role)));
    roots.dedup_by(|later, first| later.path == first.path);
    Ok(roots)
}

/// The kernel's own file systems are never writable. The root of everything means everything but them.
fn spread(path: &Path) -> Result<Vec<PathBuf>, SandboxError> {
    const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
    if path == Path::new("/") {
        let entries = std::fs::read_dir(path).map_err(|error| SandboxError::prepare("reading /", error))?;
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let paths = directories.map(|entry| entry.path());
        return Ok(paths.filter(|path| !KERNEL.iter().any(|kernel| path == Path::new(kernel))).collect());
    }
    let is_kernels = KERNEL.iter().any(|kernel| path.starts_with(kernel));
    if is_kernels && !path.starts_with("/dev/shm") {
        return Err(SandboxError::WritableRoot(path.to_path_buf()));
    }
    Ok(vec![path.to_path_buf()])
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use codicil_protocol::AbsolutePathBuf;

    use super::*;

    fn workspace_write(roots: &[&Path]) -> SandboxPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: roots.iter().filter_map(|root| AbsolutePathBuf::new(*root)).collect(),
            read_only_access: ReadOnlyAccess::FullAccess,
            network_access: false,
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: true,
        }
    }

    fn scope_of(
        policy: &SandboxPolicy,
        workspace: &Path,
        grants: &SandboxGrants,
    ) -> Result<PolicyScope, SandboxError> {
        let (roots, server) = (&RootCache::default(), &ServerPlaces::default());
        scope(&AccessRequest { policy, workspace, grants, roots, server })
    }

    fn paths(policy: &SandboxPolicy, workspace: &Path, grants: &SandboxGrants) -> Vec<PathBuf> {
        let PolicyScope::Confined(access) = scope_of(policy, workspace, grants).unwrap() else {
            panic!("confined")
        };
        access.roots.into_iter().map(|root| root.path).collect()
    }

    #[test]
    fn the_working_directory_named_roots_and_grants_are_writable_if_they_exist() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["work", "named", "granted"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let policy = workspace_write(&[&base.join("named"), &base.join("missing"), &base.join("work")]);
        let grants = SandboxGrants { writable: vec![base.join("granted")], ..SandboxGrants::default() };
        let expected = ["granted", "named", "work"].map(|name| base.join(name));
        assert_eq!(paths(&policy, &base.join("work"), &grants), expected);
    }

    #[test]
    fn read_only_writes_nothing_but_what_is_granted() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let policy = SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false };
        assert!(paths(&policy, &base, &SandboxGrants::default()).is_empty());
        let grants = SandboxGrants { writable: vec![base.clone()], ..SandboxGrants::default() };
        assert_eq!(paths(&policy, Path::new("/"), &grants), [base]);
    }

    #[test]
    fn a_link_inside_a_root_makes_nothing_else_writable() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("work")).unwrap();
        fs::create_dir(base.join("home")).unwrap();
        symlink(base.join("home"), base.join("work/sub")).unwrap();
        symlink(base.join("home"), base.join("mine")).unwrap();
        let planted = workspace_write(&[&base.join("work/sub")]);
        assert_eq!(paths(&planted, &base.join("work"), &SandboxGrants::default()), [base.join("work")]);
        let own = workspace_write(&[&base.join("mine")]);
        assert_eq!(
            paths(&own, &base.join("work"), &SandboxGrants::default()),
            [base.join("home"), base.join("work")]
        );
    }

    #[test]
    fn the_kernels_file_systems_are_no_roots() {
        for path in ["/proc", "/sys", "/dev", "/proc/self"] {
            let refused =
                scope_of(&workspace_write(&[Path::new(path)]), Path::new("/tmp"), &SandboxGrants::default());
            assert!(matches!(refused, Err(SandboxError::WritableRoot(_))), "{path}: {refused:?}");
        }
        let everything = paths(&workspace_write(&[]), Path::new("/"), &SandboxGrants::default());
        assert!(everything.contains(&"/tmp".into()) && !everything.contains(&"/".into()));
        assert!(!everything.iter().any(|path| path.starts_with("/proc") || path.starts_with("/sys")));
    }

    #[test]
    fn a_working_directory_inside_git_metadata_is_not_writable() {
        let dir = tempfile::tempdir().unwrap();
        let hooks = dir.path().canonicalize().unwrap().join(".git/hooks");
        fs::create_dir_all(&hooks).unwrap();
        assert!(paths(&workspace_write(&[]), &hooks, &SandboxGrants::default()).is_empty());
        assert_eq!(paths(&workspace_write(&[&hooks]), &hooks, &SandboxGrants::default()), [hooks]);
    }
}
