//! [`ConfigStore`]: reading and writing the configuration.
//!
//! Creating a store does not access the disk, so that a server can respond to `initialize` first. Every call checks the files and
//! parses those that changed, so there is no change notification. All calls block.

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
    catalogue, config_read, deprecations,
    effective::{ConfigQuery, EffectiveConfig},
    error::ConfigError,
    features::{FeatureEnablement, FeatureError, Features},
    files::{ConfigFile, FileCache, Strictness},
    home::SystemFiles,
    layer_loading::{ConfigStack, check_keys, check_table},
    layers::merge,
    overrides::CommandLineFlags,
    profile::{ConfigParts, merge_with_profile},
    requirements::{Requirements, RequirementsFile},
    settings::ConfigSettings,
};

/// The sources of the configuration of a process.
#[derive(Clone, Debug)]
pub struct ConfigSources {
    pub home: HomeDirectory,
    pub system: SystemFiles,
    pub flags: CommandLineFlags,
    pub strictness: Strictness,
}

impl ConfigSources {
    /// Returns sources with the default system files and no flags.
    pub fn of(home: HomeDirectory) -> Self {
        Self {
            home,
            system: SystemFiles::default(),
            flags: CommandLineFlags::default(),
            strictness: Strictness::Lenient,
        }
    }
}

/// Reads and writes the configuration. Clones share a cache.
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

    /// Records that sandboxed commands can write to these directories from now on. `existing` are the configuration directories of
    /// projects in them; others that appear later are not used until the user agrees. Must be called before such a command starts.
    pub fn note_writable(&self, folders: &[PathBuf], existing: &[PathBuf]) -> io::Result<()> {
        self.0.agreements.note_writable(self.home(), folders, existing)
    }

    /// Returns the configuration for a working directory and, with its overrides, a thread.
    pub fn load(&self, query: &ConfigQuery) -> Result<EffectiveConfig, ConfigError> {
        let requirements = self.requirements()?;
        let ConfigStack { layers, files, flags, thread, project, trust, unagreed, mut warnings } =
            self.0.stack(query)?;
        let parts = ConfigParts { files, flags: &flags, thread: &thread };
        let mut table = merge_with_profile(parts)?;
        let mut settings = ConfigSettings::read(&table).map_err(|problem| layers.locate_problem(problem))?;
        settings.check_whole().map_err(|problem| layers.locate_problem(problem))?;
        settings.read_prompts()?;
        let deprecations = deprecations::notices(&table);
        warnings.extend(catalogue::warnings(&table, &layers, &requirements));
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

    /// Returns a configuration with an additional file of highest precedence, such as that of an agent role, and the settings of
    /// that file alone. Requirements are applied.
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

    /// Handles `config/read`.
    pub fn read(&self, params: &ConfigReadParams) -> Result<ConfigReadResponse, ConfigError> {
        let cwd = params.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let query = cwd.map(ConfigQuery::at).unwrap_or_default();
        config_read::response(&self.0.stack(&query)?.layers, params.include_layers)
    }

    /// Returns the warnings that a client receives after `initialize`. Never fails: an unusable configuration is a warning.
    pub fn warnings(&self, cwd: &Path) -> Vec<ConfigWarningNotification> {
        match self.load(&ConfigQuery::at(cwd)) {
            Ok(config) => config.warnings,
            Err(error) => vec![error.to_warning()],
        }
    }

    /// Returns the requirements of the system file and the home.
    pub fn requirements(&self) -> Result<Requirements, ConfigError> {
        let read = |path: &Path| self.0.requirements.get(path, RequirementsFile::parse);
        let system = self.0.sources.system.requirements_file().map(read).transpose()?.flatten();
        let home = read(&self.home().requirements_file())?;
        Ok(Requirements::new(system, home))
    }

    /// Handles `configRequirements/read`.
    pub fn read_requirements(&self) -> Result<ConfigRequirementsReadResponse, ConfigError> {
        Ok(ConfigRequirementsReadResponse {
            requirements: self.requirements()?.to_wire(),
            supports_independent_speed_modes: None,
        })
    }

    /// Returns the features without a working directory. If the configuration is unusable, the defaults apply.
    pub fn features(&self) -> Features {
        let defaults = |_| {
            let requirements = self.requirements().unwrap_or_default();
            Features::resolve(&ConfigSettings::default(), &self.0.enablement.snapshot(), &requirements)
        };
        self.load(&ConfigQuery::default()).map(|config| config.features).unwrap_or_else(defaults)
    }

    /// Handles `experimentalFeature/list`.
    pub fn list_features(
        &self,
        params: &ExperimentalFeatureListParams,
    ) -> Result<ExperimentalFeatureListResponse, FeatureError> {
        self.features().list(params)
    }

    /// Handles `experimentalFeature/enablement/set`. The response contains the values of this call.
    pub fn set_enablement(
        &self,
        params: ExperimentalFeatureEnablementSetParams,
    ) -> Result<ExperimentalFeatureEnablementSetResponse, FeatureError> {
        self.0.enablement.set(&params.enablement)?;
        Ok(ExperimentalFeatureEnablementSetResponse { enablement: params.enablement })
    }
}

impl ConfigStoreInner {
    /// Returns the checked layer of the command line.
    pub(crate) fn checked_flags(&self) -> Result<toml::Table, ConfigError> {
        let flags = self.sources.flags.table();
        check_table(flags)?;
        check_keys(flags, self.sources.strictness)?;
        Ok(flags.clone())
    }
}
