//! [`ConfigStore`]: the one handle through which everybody reads and writes the configuration.
//!
//! Making it touches no disk, so a server can answer `initialize` first. Every reading looks at the files
//! anew and parses only those that changed, so nobody has to be told about a change. All calls block on
//! the disk; a server makes them where that is allowed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{
    ConfigReadParams, ConfigReadResponse, ConfigRequirementsReadResponse, ConfigWarningNotification,
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse,
};

use crate::{
    HomeDirectory,
    agreements::Agreements,
    deprecations,
    effective::{ConfigQuery, EffectiveConfig},
    error::ConfigError,
    features::{FeatureEnablement, FeatureError, Features},
    files::{ConfigFile, FileCache, Strictness},
    home::SystemFiles,
    layers::merge,
    overrides::CommandLineFlags,
    profile::{ConfigParts, merge_with_profile},
    read,
    requirements::{Requirements, RequirementsFile},
    settings::ConfigSettings,
    stack::{ConfigStack, check_keys, check_table},
};

/// Where the configuration of a process comes from.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    pub home: HomeDirectory,
    pub system: SystemFiles,
    pub flags: CommandLineFlags,
    pub strictness: Strictness,
}

impl ConfigSources {
    /// The home, the usual system files, no flags.
    pub fn of(home: HomeDirectory) -> Self {
        Self {
            home,
            system: SystemFiles::default(),
            flags: CommandLineFlags::default(),
            strictness: Strictness::Lenient,
        }
    }
}

/// Reads and writes configuration; cheap to clone, all clones share what was read.
#[derive(Clone)]
pub struct ConfigStore(Arc<ConfigStoreInner>);

pub(crate) struct ConfigStoreInner {
    pub(crate) sources: ConfigSources,
    pub(crate) files: FileCache<ConfigFile>,
    requirements: FileCache<RequirementsFile>,
    enablement: FeatureEnablement,
    pub(crate) agreements: Agreements,
}

impl ConfigStore {
    pub fn new(sources: ConfigSources) -> Self {
        Self(Arc::new(ConfigStoreInner {
            sources,
            files: FileCache::default(),
            requirements: FileCache::default(),
            enablement: FeatureEnablement::default(),
            agreements: Agreements::default(),
        }))
    }

    pub fn home(&self) -> &HomeDirectory {
        &self.0.sources.home
    }

    pub(crate) fn inner(&self) -> &ConfigStoreInner {
        &self.0
    }

    /// Takes note that confined commands can write to these folders from now on. `existing` are the configuration
    /// folders of projects in them; others that appear there are not used until a person agrees. Call it before such a
    /// command starts.
    pub fn note_writable(&self, folders: &[PathBuf], existing: &[PathBuf]) -> io::Result<()> {
        self.0.agreements.note_writable(self.home(), folders, existing)
    }

    /// The configuration for a working directory and, with its overrides, a thread.
    pub fn load(&self, query: &ConfigQuery) -> Result<EffectiveConfig, ConfigError> {
        let requirements = self.requirements()?;
        let ConfigStack { layers, files, flags, thread, project, trust, unagreed, mut warnings } =
            self.0.stack(query)?;
        let parts = ConfigParts { files, flags: &flags, thread: &thread };
        let mut table = merge_with_profile(parts)?;
        let mut settings = ConfigSettings::read(&table).map_err(|problem| layers.blame(problem))?;
        settings.check_whole().map_err(|problem| layers.blame(problem))?;
        settings.read_prompts()?;
        let deprecations = deprecations::notices(&table);
        warnings.extend(requirements.constrain(&mut settings, &mut table));
        let features = Features::resolve(&settings, &self.0.enablement.snapshot(), &requirements);
        let requirements = Arc::new(requirements);
        Ok(EffectiveConfig {
            settings,
            features,
            requirements,
            warnings,
            deprecations,
            project,
            trust,
            unagreed,
            table,
            layers,
        })
    }

    /// A configuration with one more file over it, such as that of an agent's role, and what that file says
    /// by itself. Requirements hold for it as for every other.
    pub fn with_file(
        &self,
        base: &EffectiveConfig,
        path: &Path,
    ) -> Result<(EffectiveConfig, ConfigSettings), ConfigError> {
        let file = self.0.file(path)?.ok_or_else(|| ConfigError::unreadable(path, "no such file"))?;
        let own = ConfigSettings::read(&file.table).map_err(ConfigError::Value)?;
        let mut config = base.clone();
        merge(&mut config.table, &file.table);
        let mut settings = ConfigSettings::read(&config.table).map_err(ConfigError::Value)?;
        settings.check_whole().map_err(ConfigError::Value)?;
        settings.read_prompts()?;
        config.requirements.constrain(&mut settings, &mut config.table);
        config.features = Features::resolve(&settings, &self.0.enablement.snapshot(), &config.requirements);
        config.settings = settings;
        Ok((config, own))
    }

    /// `config/read`.
    pub fn read(&self, params: &ConfigReadParams) -> Result<ConfigReadResponse, ConfigError> {
        let cwd = params.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let query = cwd.map(ConfigQuery::at).unwrap_or_default();
        read::response(&self.0.stack(&query)?.layers, params.include_layers)
    }

    /// What a client is told after `initialize`. Never fails: that there is no usable configuration is a
    /// warning itself.
    pub fn warnings(&self, cwd: &Path) -> Vec<ConfigWarningNotification> {
        match self.load(&ConfigQuery::at(cwd)) {
            Ok(config) => config.warnings,
            Err(error) => vec![error.to_warning()],
        }
    }

    /// The rules in force, from the system's file and the home's.
    pub fn requirements(&self) -> Result<Requirements, ConfigError> {
        let read = |path: &Path| self.0.requirements.get(path, RequirementsFile::parse);
        let system = self.0.sources.system.requirements_file().map(read).transpose()?.flatten();
        let home = read(&self.home().requirements_file())?;
        Ok(Requirements::new(system, home))
    }

    /// `configRequirements/read`.
    pub fn read_requirements(&self) -> Result<ConfigRequirementsReadResponse, ConfigError> {
        Ok(ConfigRequirementsReadResponse { requirements: self.requirements()?.to_wire() })
    }

    /// The features of a server without a working directory. A broken configuration says nothing about
    /// them; the defaults hold then, as they do for everything else.
    pub fn features(&self) -> Features {
        let from_nothing = |_| {
            let requirements = self.requirements().unwrap_or_default();
            Features::resolve(&ConfigSettings::default(), &self.0.enablement.snapshot(), &requirements)
        };
        self.load(&ConfigQuery::default()).map(|config| config.features).unwrap_or_else(from_nothing)
    }

    /// `experimentalFeature/list`.
    pub fn list_features(
        &self,
        params: &ExperimentalFeatureListParams,
    ) -> Result<ExperimentalFeatureListResponse, FeatureError> {
        self.features().list(params)
    }

    /// `experimentalFeature/enablement/set`: answers what was set by this call.
    pub fn set_enablement(
        &self,
        params: ExperimentalFeatureEnablementSetParams,
    ) -> Result<ExperimentalFeatureEnablementSetResponse, FeatureError> {
        self.0.enablement.set(&params.enablement)?;
        Ok(ExperimentalFeatureEnablementSetResponse { enablement: params.enablement })
    }
}

impl ConfigStoreInner {
    /// The layer of the command line, checked.
    pub(crate) fn checked_flags(&self) -> Result<toml::Table, ConfigError> {
        let flags = self.sources.flags.table();
        check_table(flags)?;
        check_keys(flags, self.sources.strictness)?;
        Ok(flags.clone())
    }
}
