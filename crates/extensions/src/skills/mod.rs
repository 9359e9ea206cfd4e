//! Skills: instructions in files, which an agent reads when a skill is mentioned or fits the task.
//!
//! [`Skills`] finds them ([`roots`] lists the folders, [`scan`] searches one), caches the result, and watches
//! the files while threads are loaded. Whether a skill is enabled is looked up in the configuration each
//! time.
//!
//! Everything here blocks on the disk, except [`Skills::watch`].

mod bundled;
mod cache;
mod details;
mod enablement;
mod file;
pub(crate) mod roots;
pub(crate) mod scan;
mod watch;
mod watcher;
pub(crate) mod yaml;

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, Feature, WriteError};
use codicil_protocol::{
    SkillErrorInfo, SkillMetadata, SkillScope, SkillsConfigWriteParams, SkillsConfigWriteResponse,
    SkillsListEntry, SkillsListParams, SkillsListResponse,
};
use parking_lot::Mutex;

pub(crate) use self::{enablement::SkillSwitches, file::FILE_NAME};
pub use self::{file::Skill, watch::SkillWatch};

use self::{
    cache::{CacheFreshness, SkillCache},
    enablement::SkillSelector,
    roots::UserHomes,
    scan::{RootKind, SkillRoot},
    watch::SkillWatches,
};
use crate::plugins::{InstalledPlugin, Plugins};

/// Maximum number of directories in one request.
const MAX_CWDS: usize = 256;

/// Reasons why a request about skills fails. Clients match on the first two texts.
#[derive(Debug, thiserror::Error)]
pub enum SkillsError {
    #[error("skills/list perCwdExtraUserRoots extraUserRoots paths must be absolute: {0}")]
    RelativeRoot(String),
    #[error("skills/config/write requires exactly one of path or name")]
    Selector,
    #[error("skills/list takes at most {MAX_CWDS} cwds")]
    TooMany,
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Finds skills. Clones share the cache.
#[derive(Clone)]
pub struct Skills(Arc<SkillsInner>);

pub(crate) struct SkillsInner {
    config: ConfigStore,
    homes: UserHomes,
    plugins: Plugins,
    cache: SkillCache,
    watches: SkillWatches,
    on_change: Box<dyn Fn() + Send + Sync>,
    bundled: Once,
    /// The roots that a client has added for this process.
    extra_roots: Mutex<Vec<PathBuf>>,
}

/// The skills of a directory, including disabled ones.
#[derive(Debug, Default)]
pub struct FoundSkills {
    /// Sorted by scope (repo, user, system, admin), then by name.
    pub skills: Vec<Skill>,
    pub errors: Vec<SkillErrorInfo>,
}

impl Skills {
    /// `on_change` is called from any thread when watched files have changed.
    pub(crate) fn new(
        config: ConfigStore,
        homes: UserHomes,
        plugins: Plugins,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(SkillsInner {
            config,
            homes,
            plugins,
            cache: SkillCache::default(),
            watches: SkillWatches::default(),
            on_change: Box::new(on_change),
            bundled: Once::new(),
            extra_roots: Mutex::default(),
        }))
    }

    /// Serves `skills/list`. `cwd` is the server's working directory.
    pub fn list(&self, params: &SkillsListParams, cwd: &Path) -> Result<SkillsListResponse, SkillsError> {
        let cwds = match params.cwds.as_deref() {
            Some(cwds) if !cwds.is_empty() => cwds.to_vec(),
            _ => vec![cwd.to_string_lossy().into_owned()],
        };
        if cwds.len() > MAX_CWDS {
            return Err(SkillsError::TooMany);
        }
        let freshness = match params.force_reload {
            Some(true) => CacheFreshness::Reread,
            _ => CacheFreshness::Cached,
        };
        let extra: Vec<_> = cwds.iter().map(|cwd| extra_roots(params, cwd)).collect::<Result<_, _>>()?;
        let entries = cwds.into_iter().zip(extra).map(|(given, extra)| {
            let found = self.0.find(&cwd.join(&given), extra, None, freshness);
            let skills = found.skills.into_iter().map(|skill| skill.metadata).collect();
            SkillsListEntry { cwd: given, skills, errors: found.errors }
        });
        Ok(SkillsListResponse { data: entries.collect() })
    }

    /// Returns the skills of a thread in this directory. Which are enabled is read from the current
    /// configuration; whether bundled skills and plugins are included is decided by the configuration of the
    /// thread.
    pub fn at(&self, cwd: &Path, thread: &EffectiveConfig) -> FoundSkills {
        let freshness =
            if self.0.watches.is_watched(cwd) { CacheFreshness::Cached } else { CacheFreshness::Reread };
        self.0.find(cwd, Vec::new(), Some(thread), freshness)
    }

    /// Returns a skill by its file, which may be outside all roots. `None` if the file is not a skill, or is
    /// disabled.
    pub fn by_path(&self, path: &Path) -> Option<Skill> {
        let path = path.canonicalize().ok()?;
        if path.file_name()? != FILE_NAME {
            return None;
        }
        let skill = file::read(&path, SkillScope::User, None).ok()?;
        let config = self.0.config.load(&ConfigQuery::default()).ok();
        let switches =
            config.map(|config| SkillSwitches::new(&config.settings.skills.config)).unwrap_or_default();
        switches.is_enabled(&skill.metadata).then_some(skill)
    }

    /// Returns the instructions of a skill, truncated if they are very long.
    pub fn instructions(&self, skill: &SkillMetadata) -> io::Result<String> {
        file::body(Path::new(&skill.path))
    }

    /// Serves `skills/config/write`.
    pub fn set_enabled(
        &self,
        params: &SkillsConfigWriteParams,
    ) -> Result<SkillsConfigWriteResponse, SkillsError> {
        let selector = SkillSelector::of(params).ok_or(SkillsError::Selector)?;
        enablement::write(&self.0.config, &selector, params.enabled)?;
        Ok(SkillsConfigWriteResponse { effective_enabled: params.enabled })
    }

    /// Watches the skills of a directory until the returned value is dropped. Does not block.
    pub fn watch(&self, cwd: &Path) -> SkillWatch {
        self.0.watches.watch(cwd, &self.0)
    }

    /// Replaces the roots that are searched besides the usual ones, until the process ends. They need not exist.
    pub fn set_extra_roots(&self, roots: Vec<PathBuf>) {
        let before = std::mem::replace(&mut *self.0.extra_roots.lock(), roots.clone());
        if before != roots {
            self.forget();
            self.0.watches.search_again();
            (self.0.on_change)();
        }
    }

    /// Clears the cache. Called after skills were installed or removed.
    pub fn forget(&self) {
        self.0.cache.clear();
    }
}

impl SkillsInner {
    fn find(
        &self,
        cwd: &Path,
        extra: Vec<SkillRoot>,
        thread: Option<&EffectiveConfig>,
        freshness: CacheFreshness,
    ) -> FoundSkills {
        // An invalid configuration is reported elsewhere. Skills work without one.
        let config = self.config.load(&ConfigQuery::at(cwd)).ok();
        let current = config.as_ref().or(thread);
        let switches =
            current.map(|config| SkillSwitches::new(&config.settings.skills.config)).unwrap_or_default();
        let mut roots = self.roots(cwd, current, thread.or(current));
        roots.extend(extra);
        let mut found = FoundSkills::default();
        let mut seen = HashSet::new();
        for root in roots::distinct(roots) {
            if root.kind == RootKind::System {
                self.bundled.call_once(|| bundled::install(&root.path));
            }
            let scan = self.cache.get(&root, freshness);
            let new = scan.skills.iter().filter(|skill| seen.insert(skill.metadata.path.clone()));
            found.skills.extend(new.cloned());
            if root.kind != RootKind::System {
                found
                    .errors
                    .extend(scan.errors.iter().filter(|error| seen.insert(error.path.clone())).cloned());
            }
        }
        let plugins = self.plugin_roots(current, thread.or(current));
        for skill in &mut found.skills {
            skill.metadata.enabled = switches.is_enabled(&skill.metadata);
            let owner = plugins.iter().find(|(root, _)| Path::new(&skill.metadata.path).starts_with(root));
            skill.metadata.plugin_id = owner.map(|(_, id)| id.clone());
        }
        found.skills.sort_by_cached_key(|skill| {
            (rank(&skill.metadata.scope), skill.metadata.name.clone(), skill.metadata.path.clone())
        });
        found
    }

    /// Returns all roots. `current` is the configuration of the directory; `thread` decides which kinds of
    /// roots exist.
    fn roots(
        &self,
        cwd: &Path,
        current: Option<&EffectiveConfig>,
        thread: Option<&EffectiveConfig>,
    ) -> Vec<SkillRoot> {
        let mut roots = roots::roots(&self.homes, cwd, current);
        let bundled = thread.and_then(|thread| thread.settings.skills.bundled);
        if bundled.is_some_and(|bundled| !bundled.enabled) {
            roots.retain(|root| root.kind != RootKind::System);
        }
        let of_plugins = self.plugin_roots(current, thread).into_iter();
        roots.extend(of_plugins.map(|(path, _)| SkillRoot { path, kind: RootKind::User }));
        let extra = self.extra_roots.lock().clone().into_iter();
        roots.extend(extra.map(|path| SkillRoot { path, kind: RootKind::User }));
        roots
    }

    /// Returns the skill folders of the enabled plugins, with the ids of the plugins.
    fn plugin_roots(
        &self,
        current: Option<&EffectiveConfig>,
        thread: Option<&EffectiveConfig>,
    ) -> Vec<(PathBuf, String)> {
        let (Some(current), Some(thread)) = (current, thread) else { return Vec::new() };
        if !thread.features.enabled(Feature::Plugins) {
            return Vec::new();
        }
        let with_id = |plugin: InstalledPlugin| {
            let id = plugin.id.to_string();
            plugin.contents.skill_roots.into_iter().map(move |root| (root, id.clone()))
        };
        self.plugins.enabled(&current.settings.plugins).into_iter().flat_map(with_id).collect()
    }

    /// Returns the roots of a directory to watch: all but the bundled skills.
    fn watched_roots(&self, cwd: &Path) -> Vec<SkillRoot> {
        let config = self.config.load(&ConfigQuery::at(cwd)).ok();
        let mut roots = roots::distinct(self.roots(cwd, config.as_ref(), config.as_ref()));
        roots.retain(|root| root.kind != RootKind::System);
        roots
    }
}

/// Returns the extra roots that a request lists for a directory.
fn extra_roots(params: &SkillsListParams, cwd: &str) -> Result<Vec<SkillRoot>, SkillsError> {
    let entries = params.per_cwd_extra_user_roots.iter().flatten().filter(|entry| entry.cwd == cwd);
    let paths = entries.flat_map(|entry| &entry.extra_user_roots).map(PathBuf::from);
    let root = |path: PathBuf| {
        if path.is_absolute() {
            Ok(SkillRoot { path, kind: RootKind::User })
        } else {
            Err(SkillsError::RelativeRoot(path.to_string_lossy().into_owned()))
        }
    };
    paths.map(root).collect()
}

fn rank(scope: &SkillScope) -> u8 {
    match scope {
        SkillScope::Repo => 0,
        SkillScope::User => 1,
        SkillScope::System => 2,
        SkillScope::Admin => 3,
        SkillScope::Unrecognized(_) => 4,
    }
}
