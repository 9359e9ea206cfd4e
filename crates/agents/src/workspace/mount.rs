//! Mounts, and the checks that need no open file.

use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::error::{SecurityError, WorkspaceError, io_error};

/// A host file or directory that is copied into a workspace.
///
/// ```
/// use codicil_agents::workspace::HostMount;
///
/// let sources = HostMount::new("/srv/project")
///     .at("project")
///     .include("*.rs")
///     .include("Cargo.*")
///     .exclude("target")
///     .max_bytes(10 << 20);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMount {
    pub(super) host_path: PathBuf,
    pub(super) mount_path: Option<PathBuf>,
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    pub(super) max_bytes: Option<u64>,
    pub(super) symlinks: SymlinkPolicy,
}

/// The treatment of symbolic links below a mount. Links are never copied as links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Links are left out and counted.
    #[default]
    Skip,
    /// A link is an error.
    Refuse,
    /// The target is copied in place of the link, if it is within the allowed roots.
    Follow,
}

impl HostMount {
    /// Mounts a host path, which must be absolute. Links in the path itself are resolved before it is compared with
    /// the allowed roots.
    pub fn new(host_path: impl Into<PathBuf>) -> Self {
        Self {
            host_path: host_path.into(),
            mount_path: None,
            include: Vec::new(),
            exclude: Vec::new(),
            max_bytes: None,
            symlinks: SymlinkPolicy::default(),
        }
    }

    /// Sets the path in the workspace; by default the last component of the host path. `.` is the workspace itself.
    pub fn at(mut self, mount_path: impl Into<PathBuf>) -> Self {
        self.mount_path = Some(mount_path.into());
        self
    }

    /// Includes only files that match this glob, or another included one. The path below the mount is matched, and `*`
    /// also matches `/`: `*.rs` matches all Rust files.
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.include.push(glob.into());
        self
    }

    /// Excludes files that match this glob, even if they are included. A matching directory is not read.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    /// Limits the bytes that this mount may copy.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the treatment of symbolic links; they are skipped by default.
    pub fn symlinks(mut self, symlinks: SymlinkPolicy) -> Self {
        self.symlinks = symlinks;
        self
    }
}

/// A mount that has passed the checks.
#[derive(Debug)]
pub(super) struct CheckedMount<'m> {
    pub mount: &'m HostMount,
    /// The host path with links resolved.
    pub real: PathBuf,
    /// The path in the workspace: relative, without `.` and `..`.
    pub target: PathBuf,
    include: Option<GlobSet>,
    exclude: GlobSet,
}

impl<'m> CheckedMount<'m> {
    pub fn new(mount: &'m HostMount, roots: &[PathBuf]) -> Result<Self, WorkspaceError> {
        let host = &mount.host_path;
        if !host.is_absolute() {
            return Err(invalid(mount, "the host path is not absolute"));
        }
        if roots.is_empty() {
            return Err(SecurityError::NoAllowedRoots { path: host.clone() }.into());
        }
        let real = host.canonicalize().map_err(|cause| io_error("open", host, cause))?;
        if !is_within(&real, roots) {
            return Err(SecurityError::OutsideAllowedRoots { path: host.clone() }.into());
        }
        let include = (!mount.include.is_empty()).then(|| globs(mount, &mount.include)).transpose()?;
        let exclude = globs(mount, &mount.exclude)?;
        Ok(Self { mount, target: target(mount, &real)?, real, include, exclude })
    }

    /// Returns whether a file is copied, given its path below the mount.
    pub fn includes(&self, relative: &Path) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(relative)) && !self.excludes(relative)
    }

    /// Returns whether a path and everything below it is left out.
    pub fn excludes(&self, relative: &Path) -> bool {
        self.exclude.is_match(relative)
    }
}

/// Resolves links in the roots. A root that does not exist allows nothing.
pub(super) fn resolve_roots(roots: &[PathBuf]) -> Vec<PathBuf> {
    roots.iter().filter(|root| root.is_absolute()).filter_map(|root| root.canonicalize().ok()).collect()
}

pub(super) fn is_within(real: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| real.starts_with(root))
}

fn target(mount: &HostMount, real: &Path) -> Result<PathBuf, WorkspaceError> {
    let name = || mount.host_path.file_name().or_else(|| real.file_name()).map(PathBuf::from);
    let wanted = mount.mount_path.clone().or_else(name);
    let wanted = wanted.ok_or_else(|| invalid(mount, "the host path has no name to be mounted under"))?;
    let mut target = PathBuf::new();
    for component in wanted.components() {
        match component {
            Component::Normal(name) => target.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(SecurityError::MountPath { path: wanted }.into());
            }
        }
    }
    Ok(target)
}

fn globs(mount: &HostMount, patterns: &[String]) -> Result<GlobSet, WorkspaceError> {
    let wrong = |error: globset::Error| invalid(mount, error.to_string());
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(wrong)?);
    }
    set.build().map_err(wrong)
}

fn invalid(mount: &HostMount, problem: impl Into<String>) -> WorkspaceError {
    WorkspaceError::Invalid { mount: mount.host_path.clone(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(mount: &HostMount) -> Result<(PathBuf, Vec<bool>), String> {
        let roots = [PathBuf::from("/")];
        let checked = CheckedMount::new(mount, &roots).map_err(|error| error.to_string())?;
        let paths = ["a.rs", "src/b.rs", "target/c.rs", "notes.md"];
        let included = paths.iter().map(|path| checked.includes(Path::new(path))).collect();
        Ok((checked.target, included))
    }

    #[test]
    fn a_mount_path_stays_in_the_workspace() {
        let check = |path: &str, expected: Result<&str, &str>| {
            let found = checked(&HostMount::new("/").at(path)).map(|(target, _)| target);
            assert_eq!(found, expected.map(PathBuf::from).map_err(str::to_owned), "{path}");
        };
        check("repo", Ok("repo"));
        check("./a/./b", Ok("a/b"));
        check(".", Ok(""));
        check("../out", Err("mount path leaves the workspace: ../out"));
        check("a/../../out", Err("mount path leaves the workspace: a/../../out"));
        check("/etc", Err("mount path leaves the workspace: /etc"));
    }

    #[test]
    fn globs_select_files() {
        let included = |mount: HostMount| checked(&mount.at("x")).unwrap().1;
        assert_eq!(included(HostMount::new("/")), [true, true, true, true]);
        assert_eq!(included(HostMount::new("/").include("*.rs")), [true, true, true, false]);
        assert_eq!(
            included(HostMount::new("/").include("*.rs").exclude("target/**")),
            [true, true, false, false]
        );
        assert_eq!(
            included(HostMount::new("/").include("src/*").include("*.md")),
            [false, true, false, true]
        );
    }

    #[test]
    fn invalid_mounts_are_refused() {
        let problem = |mount: HostMount| checked(&mount).unwrap_err();
        assert!(problem(HostMount::new("relative")).contains("not absolute"));
        assert!(problem(HostMount::new("/")).contains("no name"));
        assert!(problem(HostMount::new("/").at("x").include("[")).contains("invalid mount /"));
        assert!(problem(HostMount::new("/no/such/place")).starts_with("cannot open /no/such/place"));
    }
}
