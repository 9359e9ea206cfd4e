//! Trust in projects.
//!
//! The configuration of a project can allow commands without approval, so it is used only if the user trusts the project with
//! `[projects."/path"] trust_level = "trusted"`. The nearest entry decides, from the directory of the file up to the root of the
//! project; then the entry of the repository to which a linked worktree belongs. Entries of project files are ignored: a project
//! cannot trust itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    files::read_regular,
    project::ProjectDirectory,
    tables::{ProjectEntry, TrustLevel},
};

/// The trust entries of the configuration.
pub(crate) struct TrustTable<'s>(pub &'s BTreeMap<String, ProjectEntry>);

impl TrustTable<'_> {
    /// Returns the trust level of a directory; `None` if there is no entry.
    pub(crate) fn level(&self, project: &ProjectDirectory, folder: &Path) -> Option<TrustLevel> {
        if self.0.is_empty() {
            return None;
        }
        let entry = project.upwards_from(folder).find_map(|folder| self.entry(folder));
        entry.or_else(|| self.entry(&main_worktree(&project.root)?))
    }

    /// Returns the entry of this directory, by its path or its canonical path.
    fn entry(&self, folder: &Path) -> Option<TrustLevel> {
        let named = |folder: &Path| {
            let mut entries = self.0.iter().filter(|(name, _)| Path::new(name) == folder);
            entries.find_map(|(_, entry)| entry.trust_level)
        };
        named(folder).or_else(|| named(&folder.canonicalize().ok()?))
    }
}

/// Returns the main repository of a linked worktree.
///
/// An archive can contain a `.git` file that points to a trusted repository, so the repository must point back.
fn main_worktree(root: &Path) -> Option<PathBuf> {
    let link = root.join(".git");
    let admin = root.join(read_regular(&link).ok()?.strip_prefix("gitdir:")?.trim());
    let back = read_regular(&admin.join("gitdir")).ok()?;
    if admin.join(back.trim()).canonicalize().ok()? != link.canonicalize().ok()? {
        return None;
    }
    let git_dir = admin.parent().filter(|dir| dir.ends_with("worktrees"))?.parent()?;
    git_dir.parent().map(Path::to_owned)
}
