//! Searches one root for skills, within limits.
//!
//! Symbolic links are followed, because users link skills from repositories; each folder is visited once, so
//! a loop ends. Hidden folders are skipped. The name of a skill below a plugin begins with the name of the
//! plugin.

use std::{
    collections::{HashSet, VecDeque},
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use codicil_protocol::{SkillErrorInfo, SkillScope};

use super::file::{self, FILE_NAME, Skill};
use crate::plugins::manifest;

/// Maximum depth of a skill below its root.
const MAX_DEPTH: usize = 6;
/// Maximum number of visited folders of a root.
const MAX_FOLDERS: usize = 2000;
/// Maximum number of directory entries of a root, so that a folder full of files costs little.
const MAX_ENTRIES: usize = 50_000;

/// A folder that holds skills.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SkillRoot {
    pub path: PathBuf,
    pub kind: RootKind,
}

/// Where a root comes from, which is the scope of its skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RootKind {
    Repo,
    User,
    System,
    Admin,
}

impl RootKind {
    pub fn scope(self) -> SkillScope {
        match self {
            Self::Repo => SkillScope::Repo,
            Self::User => SkillScope::User,
            Self::System => SkillScope::System,
            Self::Admin => SkillScope::Admin,
        }
    }
}

/// The skills of a root.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    pub skills: Vec<Skill>,
    pub errors: Vec<SkillErrorInfo>,
    /// All visited folders, with links resolved.
    pub folders: Vec<PathBuf>,
    /// Size and modification time of each skill file, so that a change of its text is a change of the scan.
    stamps: Vec<(u64, Option<SystemTime>)>,
}

impl RootScan {
    /// Returns whether the skills and errors are the same, including the contents of the files.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.skills, &self.errors, &self.stamps) == (&other.skills, &other.errors, &other.stamps)
    }
}

/// Searches a root. A missing root has no skills.
pub(crate) fn scan(root: &SkillRoot) -> RootScan {
    let Ok(path) = root.path.canonicalize() else { return RootScan::default() };
    let mut walk = SkillWalk {
        kind: root.kind,
        waiting: VecDeque::from([SkillFolder { depth: 0, plugin: manifest::plugin_around(&path), path }]),
        seen: HashSet::new(),
        entries: 0,
        found: RootScan::default(),
    };
    while let Some(folder) = walk.waiting.pop_front() {
        walk.visit(folder);
    }
    walk.found
}

struct SkillWalk {
    kind: RootKind,
    waiting: VecDeque<SkillFolder>,
    seen: HashSet<PathBuf>,
    entries: usize,
    found: RootScan,
}

struct SkillFolder {
    path: PathBuf,
    depth: usize,
    /// The plugin that the folder belongs to.
    plugin: Option<String>,
}

impl SkillWalk {
    fn visit(&mut self, folder: SkillFolder) {
        if self.seen.len() == MAX_FOLDERS {
            tracing::warn!("more than {MAX_FOLDERS} folders with skills; skipping {}", folder.path.display());
            self.waiting.clear();
            return;
        }
        if !self.seen.insert(folder.path.clone()) {
            return;
        }
        let Ok(entries) = fs::read_dir(&folder.path) else { return };
        let room = MAX_ENTRIES - self.entries;
        let mut names: Vec<_> = entries.flatten().take(room).map(|entry| entry.file_name()).collect();
        self.entries += names.len();
        self.found.folders.push(folder.path.clone());
        names.sort_unstable();
        for name in names {
            if name == FILE_NAME {
                self.take(&folder.path.join(FILE_NAME), folder.plugin.as_deref());
            } else if !name.to_string_lossy().starts_with('.') {
                self.descend(&folder, folder.path.join(name));
            }
        }
    }

    fn descend(&mut self, folder: &SkillFolder, path: PathBuf) {
        let is_folder = fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir());
        if folder.depth == MAX_DEPTH || !is_folder {
            return;
        }
        let Ok(path) = path.canonicalize() else { return };
        let plugin = manifest::plugin_at(&path).or_else(|| folder.plugin.clone());
        self.waiting.push_back(SkillFolder { path, depth: folder.depth + 1, plugin });
    }

    fn take(&mut self, path: &Path, plugin: Option<&str>) {
        // The configuration refers to skills by their real paths, so links are resolved.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let metadata = fs::metadata(&path).ok();
        self.found.stamps.push(metadata.map_or((0, None), |file| (file.len(), file.modified().ok())));
        match file::read(&path, self.kind.scope(), plugin) {
            Ok(skill) => self.found.skills.push(skill),
            Err(error) => self.found.errors.push(SkillErrorInfo {
                path: path.to_string_lossy().into_owned(),
                message: error.to_string(),
            }),
        }
    }
}
