//! Where files may be written under a sandbox policy.

use std::path::{Component, Path, PathBuf};

use codicil_protocol::SandboxPolicy;

use crate::decide::Access;

/// Directories that stay as they are even inside a writable root: whoever writes them decides what runs
/// next, outside any sandbox.
const PROTECTED: [&str; 4] = [".git", ".codex", ".codicil", ".agents"];

/// The directories that may be written to, and what in them may not.
///
/// Paths are compared by their text, so all of them, roots included, should be free of links:
/// [`WritableRoots::resolved`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableRoots {
    everywhere: bool,
    roots: Vec<PathBuf>,
    protected: Vec<PathBuf>,
}

impl WritableRoots {
    /// What the policy says, and what was granted in addition. `tmpdir` is the value of `$TMPDIR`.
    pub fn new(policy: &SandboxPolicy, cwd: &Path, tmpdir: Option<&Path>, granted: &Access) -> Self {
        let everywhere =
            matches!(policy, SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. });
        let mut roots = granted.write.clone();
        if let SandboxPolicy::WorkspaceWrite {
            writable_roots,
            exclude_tmpdir_env_var,
            exclude_slash_tmp,
            ..
        } = policy
        {
            roots.push(cwd.to_owned());
            roots.extend(writable_roots.iter().map(|root| root.to_path_buf()));
            roots.extend(tmpdir.filter(|_| !exclude_tmpdir_env_var).map(Path::to_path_buf));
            roots.extend((cfg!(unix) && !exclude_slash_tmp).then(|| PathBuf::from("/tmp")));
        }
        Self { everywhere, roots, protected: Vec::new() }
    }

    /// With more places that must not be written, such as the directory that a `.git` file points to.
    pub fn protect(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.protected.extend(places);
        self
    }

    /// With every path replaced by what `resolve` makes of it.
    pub fn resolved(mut self, resolve: impl Fn(&Path) -> PathBuf) -> Self {
        for path in self.roots.iter_mut().chain(&mut self.protected) {
            *path = resolve(path);
        }
        self
    }

    /// Whether a file at this place may be written. Places that lead upwards are not looked at.
    pub fn allows(&self, place: &Path) -> bool {
        if self.everywhere {
            return true;
        }
        let is_clean = place.is_absolute() && !place.components().any(|part| part == Component::ParentDir);
        let is_protected = || self.protected.iter().any(|protected| place.starts_with(protected));
        is_clean && !is_protected() && self.roots.iter().any(|root| is_inside(root, place))
    }
}

/// The names of protected directories count below the root only: one may work inside such a directory.
fn is_inside(root: &Path, place: &Path) -> bool {
    let Ok(below) = place.strip_prefix(root) else { return false };
    let is_protected = |part: Component<'_>| {
        // Some file systems do not tell `.GIT` from `.git`.
        PROTECTED.iter().any(|name| part.as_os_str().eq_ignore_ascii_case(name))
    };
    !below.components().any(is_protected)
}
