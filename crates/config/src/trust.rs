//! Whether a project's own configuration counts.
//!
//! A project can set which commands run without asking, so its files are used only when a person said so
//! with `[projects."/path"] trust_level = "trusted"`. The nearest entry decides, from the folder of the file
//! up to the project's root; then that of the repository a linked worktree belongs to. Entries are taken from
//! system, user and flags only: a project cannot trust itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    files::read_regular,
    project::ProjectDirectory,
    tables::{ProjectEntry, TrustLevel},
};

/// What people have said about projects.
pub(crate) struct TrustTable<'s>(pub &'s BTreeMap<String, ProjectEntry>);

impl TrustTable<'_> {
    /// `None` when nobody has said anything yet.
    pub(crate) fn level(&self, project: &ProjectDirectory, folder: &Path) -> Option<TrustLevel> {
        if self.0.is_empty() {
            return None;
        }
        let entry = project.upwards_from(folder).find_map(|folder| self.entry(folder));
        entry.or_else(|| self.entry(&main_worktree(&project.root)?))
    }

    /// The entry of exactly this folder, by the name used or else by the real one.
    fn entry(&self, folder: &Path) -> Option<TrustLevel> {
        let named = |folder: &Path| {
            let mut entries = self.0.iter().filter(|(name, _)| Path::new(name) == folder);
            entries.find_map(|(_, entry)| entry.trust_level)
        };
        named(folder).or_else(|| named(&folder.canonicalize().ok()?))
    }
}

/// The repository a linked worktree was made from.
///
/// Anyone can put a `.git` file into an archive that points at a repository which is trusted; so the
/// repository must point back.
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
