//! The folders that are searched for skills, for a working directory.
//!
//! | scope | folders |
//! |---|---|
//! | repo | `.agents/skills`, `.codicil/skills` and `.codex/skills` in the directory and above it, up to the root of its project |
//! | user | `skills` in the server's home, `~/.agents/skills`, those of plugins, extra roots |
//! | system | `skills/.system` in the server's home: the bundled ones |
//! | admin | `skills` beside the system's `config.toml` |
//!
//! A project need not be trusted: a skill is a text that has no effect until it is mentioned or chosen.

use std::path::{Path, PathBuf};

use codicil_config::EffectiveConfig;
use codicil_protocol::ConfigLayerSource;

use super::scan::{RootKind, SkillRoot};

const PROJECT_FOLDERS: [&str; 3] = [".agents/skills", ".codicil/skills", ".codex/skills"];

/// The two home directories of a user.
#[derive(Clone, Debug)]
pub(crate) struct UserHomes {
    /// The server's: configuration, threads, skills.
    pub server: PathBuf,
    /// `~`, if there is one.
    pub user: Option<PathBuf>,
}

impl UserHomes {
    pub fn bundled_skills(&self) -> PathBuf {
        self.server.join("skills/.system")
    }
}

/// Returns the roots of a directory, except for those of plugins. Without a `config`, the defaults apply.
pub(crate) fn roots(homes: &UserHomes, cwd: &Path, config: Option<&EffectiveConfig>) -> Vec<SkillRoot> {
    let user_folders =
        [Some(homes.server.join("skills")), homes.user.as_ref().map(|home| home.join(".agents/skills"))];
    let mut roots: Vec<_> =
        user_folders.into_iter().flatten().map(|path| root(path, RootKind::User)).collect();
    roots.push(root(homes.bundled_skills(), RootKind::System));
    roots.extend(config.and_then(system_root));
    roots.extend(project_roots(cwd, config));
    roots
}

/// Removes roots that are the same folder as an earlier one.
pub(crate) fn distinct(roots: Vec<SkillRoot>) -> Vec<SkillRoot> {
    let mut kept: Vec<(PathBuf, SkillRoot)> = Vec::with_capacity(roots.len());
    for root in roots {
        let real = root.path.canonicalize().unwrap_or_else(|_| root.path.clone());
        if !kept.iter().any(|(other, _)| *other == real) {
            kept.push((real, root));
        }
    }
    kept.into_iter().map(|(_, root)| root).collect()
}

fn system_root(config: &EffectiveConfig) -> Option<SkillRoot> {
    let file = config.layers().enabled().find_map(|layer| match layer.source() {
        ConfigLayerSource::System { file } => Some(file),
        _ => None,
    })?;
    Some(root(file.parent()?.join("skills"), RootKind::Admin))
}

fn project_roots(cwd: &Path, config: Option<&EffectiveConfig>) -> Vec<SkillRoot> {
    let top = match config.and_then(|config| config.project.as_ref()) {
        Some(project) => project.root.as_path(),
        None => cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd),
    };
    let folders = cwd.ancestors().take_while(|folder| folder.starts_with(top));
    let paths = folders.flat_map(|folder| PROJECT_FOLDERS.map(|skills| folder.join(skills)));
    paths.map(|path| root(path, RootKind::Repo)).collect()
}

fn root(path: PathBuf, kind: RootKind) -> SkillRoot {
    SkillRoot { path, kind }
}
