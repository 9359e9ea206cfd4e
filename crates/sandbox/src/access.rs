//! Resolves a policy to plain lists: what can be read, what can be written, and whether there is a network.
//!
//! Paths are resolved against the file system as it is now: they have no symbolic links, and missing ones are left out,
//! because the sandbox creates nothing for a command.

use std::path::{Path, PathBuf};

use codicil_protocol::{NetworkAccess, ReadOnlyAccess, SandboxPolicy};

use crate::{RootCache, SandboxError, ServerPlaces, server_places::HiddenPlaces};

/// Everything that decides what a command or a patch may read and write.
#[derive(Clone, Copy, Debug)]
pub struct AccessRequest<'a> {
    pub policy: &'a SandboxPolicy,
    /// The working directory of the thread or of the server, from its settings. Never one that a model names.
    pub workspace: &'a Path,
    /// Permissions granted beyond the policy.
    pub grants: &'a SandboxGrants,
    /// The resolved paths of earlier requests of the same thread.
    pub roots: &'a RootCache,
    /// The server's home and listeners.
    pub server: &'a ServerPlaces,
}

/// Permissions of one command beyond its policy. A path that does not exist grants nothing: to let a command create a file, grant its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Files and directory trees to read. Without effect if the policy allows to read everything.
    pub readable: Vec<PathBuf>,
    /// Files and directory trees to write. A socket in this list can be connected to.
    pub writable: Vec<PathBuf>,
    /// Whether the whole network is granted. `false` does not take away what the policy allows.
    pub network: bool,
}

/// A policy resolved for one machine and workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PolicyScope {
    Unconfined,
    External { network: bool },
    Confined(CommandAccess),
}

/// What a confined command can access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandAccess {
    pub reads: ReadAccess,
    /// The writable roots, sorted by path and without duplicates.
    pub roots: Vec<WritableRoot>,
    pub network: bool,
    /// The places of the server that the command cannot access.
    pub hidden: HiddenPlaces,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    Everywhere,
    /// These roots and the writable ones. `platform` adds what programs need to run at all.
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

/// Why a root is writable. The greatest of several reasons is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RootRole {
    /// `/tmp` or `$TMPDIR`: shared with other users, and not searched for nested repositories.
    Scratch,
    /// The working directory.
    Workspace,
    /// A path that the policy or a grant names. A protected folder that is named becomes writable.
    Named,
}

/// Resolves a policy and the grants.
pub(crate) fn policy_scope(request: &AccessRequest<'_>) -> Result<PolicyScope, SandboxError> {
    match request.policy {
        SandboxPolicy::DangerFullAccess => Ok(PolicyScope::Unconfined),
        SandboxPolicy::ExternalSandbox { network_access } => Ok(PolicyScope::External {
            network: *network_access == NetworkAccess::Enabled || request.grants.network,
        }),
        SandboxPolicy::ReadOnly { access, network_access } => {
            confined_scope(request, access, *network_access, Vec::new())
        }
        SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read_only_access,
            network_access,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
        } => {
            let mut requested = vec![(request.workspace.to_path_buf(), RootRole::Workspace)];
            requested.extend(writable_roots.iter().map(|root| (root.to_path_buf(), RootRole::Named)));
            requested.extend((!exclude_slash_tmp).then(|| ("/tmp".into(), RootRole::Scratch)));
            let tmpdir = (!exclude_tmpdir_env_var).then(tmpdir_variable).flatten();
            requested.extend(tmpdir.map(|path| (path, RootRole::Scratch)));
            confined_scope(request, read_only_access, *network_access, requested)
        }
        SandboxPolicy::Unrecognized(policy) => Err(SandboxError::UnknownPolicy(policy.to_string())),
    }
}

fn confined_scope(
    request: &AccessRequest<'_>,
    access: &ReadOnlyAccess,
    network: bool,
    mut requested: Vec<(PathBuf, RootRole)>,
) -> Result<PolicyScope, SandboxError> {
    requested.extend(request.grants.writable.iter().map(|path| (path.clone(), RootRole::Named)));
    let hidden = request.server.resolve();
    let mut roots = writable_roots(&requested, request.roots)?;
    roots.retain(|root| hidden.home.as_ref() != Some(&root.path));
    Ok(PolicyScope::Confined(CommandAccess {
        reads: read_access(access, request, &roots)?,
        roots,
        network: network || request.grants.network,
        hidden,
    }))
}

fn tmpdir_variable() -> Option<PathBuf> {
    std::env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Resolves the readable roots. The workspace is always readable, because a command is of no use without it. As with
/// writing, a symbolic link that a command may have created opens nothing.
fn read_access(
    access: &ReadOnlyAccess,
    request: &AccessRequest<'_>,
    writable: &[WritableRoot],
) -> Result<ReadAccess, SandboxError> {
    match access {
        ReadOnlyAccess::FullAccess => Ok(ReadAccess::Everywhere),
        ReadOnlyAccess::Restricted { include_platform_defaults, readable_roots } => {
            let named = readable_roots.iter().map(|root| root.to_path_buf());
            let granted = request.grants.readable.iter().cloned();
            let requested = named.chain(granted).chain([request.workspace.to_path_buf()]);
            let is_writable =
                |directory: &PathBuf| writable.iter().any(|root| directory.starts_with(&root.path));
            let mut roots: Vec<_> = requested
                .filter_map(|path| request.roots.resolve(&path))
                .filter(|resolved| !resolved.link_directories.iter().any(is_writable))
                .map(|resolved| resolved.path)
                .collect();
            roots.sort();
            roots.dedup();
            Ok(ReadAccess::Only { platform: *include_platform_defaults, roots })
        }
        ReadOnlyAccess::Unrecognized(access) => Err(SandboxError::UnknownPolicy(access.to_string())),
    }
}

/// Resolves the requested roots. Leaves out missing paths, paths that lead through a symbolic link inside another root,
/// and a workspace inside a repository's `.git`.
fn writable_roots(
    requested: &[(PathBuf, RootRole)],
    cache: &RootCache,
) -> Result<Vec<WritableRoot>, SandboxError> {
    let resolved: Vec<_> =
        requested.iter().filter_map(|(path, role)| Some((cache.resolve(path)?, *role))).collect();
    let mut roots = Vec::new();
    for (index, (root, role)) in resolved.iter().enumerate() {
        let others = resolved.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others = others.map(|(_, (other, _))| &other.path);
        if others.any(|other| root.link_directories.iter().any(|directory| directory.starts_with(other))) {
            continue;
        }
        if *role == RootRole::Workspace && root.path.iter().any(|name| name == ".git") {
            continue;
        }
        roots.extend(expand_root(&root.path)?.into_iter().map(|path| WritableRoot { path, role: *role }));
    }
    roots.sort_by(|a, b| a.path.cmp(&b.path).then(b.role.cmp(&a.role)));
    roots.dedup_by(|later, first| later.path == first.path);
    Ok(roots)
}

/// Replaces `/` by its directories without the kernel's file systems, which are never writable. Returns an error for a
/// path inside them, other than `/dev/shm`.
fn expand_root(path: &Path) -> Result<Vec<PathBuf>, SandboxError> {
    const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
    if path == Path::new("/") {
        let entries = std::fs::read_dir(path).map_err(|error| SandboxError::prepare("reading /", error))?;
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let paths = directories.map(|entry| entry.path());
        return Ok(paths.filter(|path| !KERNEL.iter().any(|kernel| path == Path::new(kernel))).collect());
    }
    let is_in_kernel = KERNEL.iter().any(|kernel| path.starts_with(kernel));
    if is_in_kernel && !path.starts_with("/dev/shm") {
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
        let roots = &RootCache::default();
        let server = &ServerPlaces::default();
        policy_scope(&AccessRequest { policy, workspace, grants, roots, server })
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
    fn read_only_allows_writing_to_granted_paths_only() {
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
    fn the_kernels_file_systems_cannot_be_roots() {
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
