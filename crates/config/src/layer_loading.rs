//! Collecting the layers for a working directory and a thread.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{ConfigLayerSource, ConfigWarningNotification};
use serde::Deserialize;
use toml::Table;

use crate::{
    catalogue::unknown_keys,
    effective::ConfigQuery,
    error::{ConfigError, ConfigProblem},
    files::{ConfigFile, Strictness},
    layers::{LayerStack, SettingsLayer, merge, source_of},
    overrides::from_request,
    project::ProjectDirectory,
    settings::ConfigSettings,
    store::ConfigStoreInner,
    tables::{ProjectEntry, TrustLevel},
    trust::TrustTable,
};

/// The layers, and the three parts between which a profile is applied.
pub(crate) struct ConfigStack {
    pub layers: LayerStack,
    pub files: Table,
    pub flags: Table,
    pub thread: Table,
    pub project: Option<ProjectDirectory>,
    pub trust: Option<TrustLevel>,
    pub unagreed: Vec<PathBuf>,
    pub warnings: Vec<ConfigWarningNotification>,
}

/// The settings that are needed before a project's files are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BaseLayers {
    projects: BTreeMap<String, ProjectEntry>,
    project_root_markers: Option<Vec<String>>,
}

impl ConfigStoreInner {
    pub(crate) fn stack(&self, query: &ConfigQuery) -> Result<ConfigStack, ConfigError> {
        let cwd = query.cwd.as_deref().map(absolute);
        let mut layers = LayerStack::default();
        layers.extend_with(self.system_layer()?);
        layers.push(self.user_layer()?);
        let flags = self.checked_flags()?;
        let thread = self.thread_table(query, cwd.as_deref())?;
        let around = cwd.map(|cwd| self.project_layers(&cwd, &layers, &flags)).transpose()?;
        let ProjectLayers { project, trust, unagreed, layers: found, warning } = around.unwrap_or_default();
        found.into_iter().for_each(|layer| layers.push(layer));
        let files = layers.merged();
        for table in [&flags, &thread].into_iter().filter(|table| !table.is_empty()) {
            layers.push(SettingsLayer::of_table(ConfigLayerSource::SessionFlags, table.clone()));
        }
        let warnings = warning.into_iter().collect();
        Ok(ConfigStack { layers, files, flags, thread, project, trust, unagreed, warnings })
    }

    /// Returns the system layer, also if its file does not exist; `None` if there is no path for it.
    fn system_layer(&self) -> Result<Option<SettingsLayer>, ConfigError> {
        let Some(path) = self.sources.system.config_file() else { return Ok(None) };
        let file = self.file_or_empty(path)?;
        Ok(Some(SettingsLayer::of_file(source_of(path, |file| ConfigLayerSource::System { file }), &file)))
    }

    pub(crate) fn system_table(&self) -> Result<Table, ConfigError> {
        Ok(self.system_layer()?.map(|layer| layer.table().clone()).unwrap_or_default())
    }

    fn user_layer(&self) -> Result<SettingsLayer, ConfigError> {
        let path = self.sources.home.config_file();
        let file = self.file_or_empty(&path)?;
        Ok(SettingsLayer::of_file(
            source_of(&path, |file| ConfigLayerSource::User { file, profile: None }),
            &file,
        ))
    }

    fn file_or_empty(&self, path: &Path) -> Result<Arc<ConfigFile>, ConfigError> {
        Ok(self.file(path)?.unwrap_or_else(|| Arc::new(ConfigFile::empty(path))))
    }

    pub(crate) fn file(&self, path: &Path) -> Result<Option<Arc<ConfigFile>>, ConfigError> {
        let strictness = self.sources.strictness;
        self.files.get(path, |path, text| ConfigFile::parse(path, text, strictness))
    }

    fn thread_table(&self, query: &ConfigQuery, cwd: Option<&Path>) -> Result<Table, ConfigError> {
        let thread = from_request(&query.overrides, cwd.unwrap_or(Path::new("/")))?;
        check_table(&thread)?;
        check_keys(&thread, self.sources.strictness)?;
        Ok(thread)
    }

    fn project_layers(
        &self,
        cwd: &Path,
        below: &LayerStack,
        flags: &Table,
    ) -> Result<ProjectLayers, ConfigError> {
        let mut merged = below.merged();
        merge(&mut merged, flags);
        let base = BaseLayers::deserialize(merged)
            .map_err(|error| below.locate_problem(ConfigProblem::of(&error)))?;
        let markers = base.project_root_markers.unwrap_or_else(|| vec![".git".to_owned()]);
        let project = ProjectDirectory::around(cwd, &markers);
        let trusts = TrustTable(&base.projects);
        let mut layers = Vec::new();
        let mut unagreed = Vec::new();
        for (dot_folder, folder) in
            project.dot_folders(&self.sources.home).filter(|(dot_folder, _)| dot_folder.is_dir())
        {
            let trust = trusts.level(&project, folder);
            let is_trusted = trust == Some(TrustLevel::Trusted);
            let writable =
                is_trusted.then(|| self.agreements.unagreed(&self.sources.home, &dot_folder)).flatten();
            if has_config(&dot_folder) {
                let reason = self.why_ignored(&project, trust, &dot_folder, writable.as_deref());
                layers.push(self.project_layer(&dot_folder, reason)?);
            }
            unagreed.extend(writable.map(|_| dot_folder));
        }
        let trust = trusts.level(&project, cwd);
        let warning = ignored_warning(&layers, &unagreed);
        Ok(ProjectLayers { project: Some(project), trust, unagreed, layers, warning })
    }

    fn project_layer(&self, dot_folder: &Path, reason: Option<String>) -> Result<SettingsLayer, ConfigError> {
        let path = config_in(dot_folder);
        let source =
            source_of(dot_folder, |dot_codex_folder| ConfigLayerSource::Project { dot_codex_folder });
        Ok(match reason {
            None => SettingsLayer::of_file(source, &self.file_or_empty(&path)?),
            Some(why) => SettingsLayer::of_file(source, &self.ignored_file(&path)).disabled(&why),
        })
    }

    /// Reads a file that is not used. Errors in it are ignored.
    fn ignored_file(&self, path: &Path) -> Arc<ConfigFile> {
        self.file_or_empty(path).unwrap_or_else(|_| Arc::new(ConfigFile::empty(path)))
    }

    /// Returns the reason why a configuration directory is not used. `writable` is a directory in which commands could have created
    /// it.
    fn why_ignored(
        &self,
        project: &ProjectDirectory,
        trust: Option<TrustLevel>,
        dot_folder: &Path,
        writable: Option<&Path>,
    ) -> Option<String> {
        let state = match (trust, writable) {
            (Some(TrustLevel::Trusted), None) => return None,
            (Some(TrustLevel::Trusted), Some(writable)) => {
                return Some(format!(
                    "{} appeared while commands of an agent could write to {}. Look at what is in it; to use it, run \
                     `codicil trust {}`.",
                    dot_folder.display(),
                    writable.display(),
                    project.root.display(),
                ));
            }
            (Some(TrustLevel::Untrusted), _) => "is marked as untrusted",
            (None, _) => "has not been marked as trusted",
        };
        Some(format!(
            "The project {root} {state}. To use its configuration, set `trust_level = \"trusted\"` \
             under `[projects.\"{root}\"]` in {}.",
            self.sources.home.config_file().display(),
            root = project.root.display(),
        ))
    }
}

/// The layers of a project.
#[derive(Default)]
struct ProjectLayers {
    project: Option<ProjectDirectory>,
    trust: Option<TrustLevel>,
    unagreed: Vec<PathBuf>,
    layers: Vec<SettingsLayer>,
    warning: Option<ConfigWarningNotification>,
}

fn config_in(dot_folder: &Path) -> PathBuf {
    dot_folder.join("config.toml")
}

fn has_config(dot_folder: &Path) -> bool {
    config_in(dot_folder).exists()
}

/// Returns one warning for all files of a project that are not used.
fn ignored_warning(layers: &[SettingsLayer], unagreed: &[PathBuf]) -> Option<ConfigWarningNotification> {
    let ignored: Vec<_> = layers.iter().filter(|layer| layer.disabled_reason().is_some()).collect();
    let why = ignored.last()?.disabled_reason()?;
    let files: Vec<_> = ignored.iter().filter_map(|layer| layer.path()).map(display).collect();
    Some(ConfigWarningNotification {
        summary: if unagreed.is_empty() {
            "The project's configuration is not used because the project is not trusted.".to_owned()
        } else {
            "A part of the project's configuration is not used until you agree to it.".to_owned()
        },
        details: Some(format!("{why}\nNot used: {}", files.join(", "))),
        path: None,
        range: None,
    })
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Checks the types of a table that does not come from a file.
pub(crate) fn check_table(table: &Table) -> Result<(), ConfigError> {
    if table.is_empty() {
        return Ok(());
    }
    ConfigSettings::read(table).map(drop).map_err(ConfigError::Value)
}

pub(crate) fn check_keys(table: &Table, strictness: Strictness) -> Result<(), ConfigError> {
    if strictness == Strictness::Lenient {
        return Ok(());
    }
    match unknown_keys(table).first() {
        Some(key) => {
            Err(ConfigError::Value(ConfigProblem::new(key.to_string(), "unknown configuration key")))
        }
        None => Ok(()),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
