//! Skills: instructions in files that an agent reads when they are called for.
//!
//! [`Skills`] finds them ([`roots`] says where, [`scan`] how), remembers what it found, and watches it while
//! threads are at work. Whether a skill is turned on is looked up in the configuration each time.
//!
//! Everything here blocks on the disk, except [`Skills::watch`].

mod bundled;
mod cache;
mod eyes;
mod file;
mod interface;
pub(crate) mod roots;
pub(crate) mod scan;
mod switches;
mod watch;
mod yaml;

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

pub(crate) use self::{file::FILE_NAME, switches::SkillSwitches};
pub use self::{file::Skill, watch::SkillWatch};

use self::{
    cache::{CacheFreshness, SkillCache},
    roots::UserHomes,
    scan::{RootKind, SkillRoot},
    switches::SkillSelector,
    watch::SkillWatches,
};
use crate::plugins::Plugins;

/// How many directories one request may ask about.
const MAX_CWDS: usize = 256;

/// Why a request about skills fails. The first two sentences are the reference server's.
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

/// Finds skills. Clones share what they know.
#[derive(Clone)]
pub struct Skills(Arc<SkillsInner>);

pub(crate) struct SkillsInner {
    config: ConfigStore,
    homes: UserHomes,
    plugins: Plugins,
    cache: SkillCache,
    watching: SkillWatches,
    on_change: Box<dyn Fn() + Send + Sync>,
    bundled: Once,
}

/// The skills of a directory, those that are turned off too.
#[derive(Debug, Default)]
pub struct FoundSkills {
    /// By scope (repo, user, system, admin), then by name.
    pub skills: Vec<Skill>,
    pub errors: Vec<SkillErrorInfo>,
}

impl Skills {
    /// `on_change` is called when files under watch have changed, from any thread.
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
            watching: SkillWatches::default(),
            on_change: Box::new(on_change),
            bundled: Once::new(),
        }))
    }

    /// `skills/list`. `cwd` is the server's own directory.
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
            _ => CacheFreshness::Remembered,
        };
        let extra: Vec<_> = cwds.iter().map(|cwd| extra_roots(params, cwd)).collect::<Result<_, _>>()?;
        let entries = cwds.into_iter().zip(extra).map(|(given, extra)| {
            let found = self.0.find(&cwd.join(&given), extra, None, freshness);
            let skills = found.skills.into_iter().map(|skill| skill.metadata).collect();
            SkillsListEntry { cwd: given, skills, errors: found.errors }
        });
        Ok(SkillsListResponse { data: entries.collect() })
    }

    /// The skills that a thread in this directory has. Which are turned off is looked up anew; whether
    /// there are bundled ones and plugins at all is the thread's own configuration's business.
    pub fn at(&self, cwd: &Path, thread: &EffectiveConfig) -> FoundSkills {
        let freshness =
            if self.0.watching.follows(cwd) { CacheFreshness::Remembered } else { CacheFreshness::Reread };
        self.0.find(cwd, Vec::new(), Some(thread), freshness)
    }

    /// A skill by its file, for one that is in none of the roots. `None` when the file is no skill, or is
    /// turned off.
    pub fn by_path(&self, path: &Path) -> Option<Skill> {
        let path = path.canonicalize().ok()?;
        if path.file_name()? != FILE_NAME {
            return None;
        }
        let skill = file::read(&path, SkillScope::User, None).ok()?;
        let config = self.0.config.load(&ConfigQuery::default()).ok();
        let switches =
            config.map(|config| SkillSwitches::new(&config.settings.skills.config)).unwrap_or_default();
        switches.is_on(&skill.metadata).then_some(skill)
    }

    /// The instructions of a skill; cut when they are very long.
    pub fn instructions(&self, skill: &SkillMetadata) -> io::Result<String> {
        file::body(Path::new(&skill.path))
    }

    /// `skills/config/write`.
    pub fn set_enabled(
        &self,
        params: &SkillsConfigWriteParams,
    ) -> Result<SkillsConfigWriteResponse, SkillsError> {
        let selector = SkillSelector::of(params).ok_or(SkillsError::Selector)?;
        switches::write(&self.0.config, &selector, params.enabled)?;
        Ok(SkillsConfigWriteResponse { effective_enabled: params.enabled })
    }

    /// Watches the skills of a directory until the answer is dropped. Does not block.
    pub fn watch(&self, cwd: &Path) -> SkillWatch {
        self.0.watching.begin(cwd, &self.0)
    }

    /// Looks at the disk the next time. For those who put skills there.
    pub fn forget(&self) {
        self.0.cache.forget_all();
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
        // A configuration that is broken is reported elsewhere; skills can do without.
        let config = self.config.load(&ConfigQuery::at(cwd)).ok();
        let now = config.as_ref().or(thread);
        let switches =
            now.map(|config| SkillSwitches::new(&config.settings.skills.config)).unwrap_or_default();
        let mut roots = self.roots(cwd, now, thread.or(now));
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
        for skill in &mut found.skills {
            skill.metadata.enabled = switches.is_on(&skill.metadata);
        }
        found.skills.sort_by_cached_key(|skill| {
            (rank(&skill.metadata.scope), skill.metadata.name.clone(), skill.metadata.path.clone())
        });
        found
    }

    /// `now` is what holds in the directory, `shape` which kinds of roots there are at all.
    fn roots(
        &self,
        cwd: &Path,
        now: Option<&EffectiveConfig>,
        shape: Option<&EffectiveConfig>,
    ) -> Vec<SkillRoot> {
        let mut roots = roots::roots(&self.homes, cwd, now);
        let bundled = shape.and_then(|shape| shape.settings.skills.bundled);
        if bundled.is_some_and(|bundled| !bundled.enabled) {
            roots.retain(|root| root.kind != RootKind::System);
        }
        if let (Some(now), Some(shape)) = (now, shape)
            && shape.features.enabled(Feature::Plugins)
        {
            let plugins = self.plugins.enabled(&now.settings.plugins).into_iter();
            let of_plugins = plugins.flat_map(|plugin| plugin.contents.skill_roots);
            roots.extend(of_plugins.map(|path| SkillRoot { path, kind: RootKind::User }));
        }
        roots
    }

    /// The roots of a directory that can change by themselves.
    fn followed_roots(&self, cwd: &Path) -> Vec<SkillRoot> {
        let config = self.config.load(&ConfigQuery::at(cwd)).ok();
        let mut roots = roots::distinct(self.roots(cwd, config.as_ref(), config.as_ref()));
        roots.retain(|root| root.kind != RootKind::System);
        roots
    }
}

/// The extra roots that a request names for a directory.
fn extra_roots(params: &SkillsListParams, cwd: &str) -> Result<Vec<SkillRoot>, SkillsError> {
    let entries = params.per_cwd_extra_user_roots.iter().flatten().filter(|entry| entry.cwd == cwd);
    let paths = entries.flat_map(|entry| &entry.extra_user_roots).map(PathBuf::from);
    let root = |path: PathBuf| match path.is_absolute() {
        true => Ok(SkillRoot { path, kind: RootKind::User }),
        false => Err(SkillsError::RelativeRoot(path.to_string_lossy().into_owned())),
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
