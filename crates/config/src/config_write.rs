//! `config/value/write`, `config/batchWrite`, and writes by other parts of the server.

use std::path::Path;

use codicil_protocol::{
    AbsolutePathBuf, ConfigBatchWriteParams, ConfigLayerSource, ConfigValueWriteParams, ConfigWriteResponse,
    OverriddenMetadata, WriteStatus,
};
use serde_json::Value as Json;
use toml::Table;

use crate::{
    ConfigStore, KeyPath,
    edit::{EditError, KeyEdit},
    effective::ConfigQuery,
    error::ConfigError,
    features::Feature,
    layer_loading::check_keys,
    layers::{LayerStack, merge, value_at},
    paths::resolve_relative_paths,
    requirements::Requirements,
    settings::ConfigSettings,
    toml_json::to_json,
    user_file::{self, WriteError},
};

impl ConfigStore {
    /// Handles `config/value/write`.
    pub fn write_value(&self, params: &ConfigValueWriteParams) -> Result<ConfigWriteResponse, WriteError> {
        self.check_target(params.file_path.as_deref())?;
        let edit = KeyEdit {
            path: KeyPath::parse(&params.key_path)?,
            value: params.value.clone(),
            strategy: params.merge_strategy,
        };
        self.write_agreed(&[edit], params.expected_version.as_deref())
    }

    /// Handles `config/batchWrite`: all edits or none.
    pub fn batch_write(&self, params: &ConfigBatchWriteParams) -> Result<ConfigWriteResponse, WriteError> {
        self.check_target(params.file_path.as_deref())?;
        let edits = params.edits.iter().map(KeyEdit::parse).collect::<Result<Vec<_>, _>>()?;
        self.write_agreed(&edits, params.expected_version.as_deref())
    }

    /// Marks a project as trusted, and agrees to its current configuration.
    pub fn trust_project(&self, project: &Path) -> Result<(), WriteError> {
        let keys = ["projects", &project.to_string_lossy(), "trust_level"];
        let edit = KeyPath::from_keys(keys).map(|path| KeyEdit::replace(path, "trusted"));
        self.write_agreed(edit.as_slice(), None).map(drop)
    }

    /// Writes edits of the user. Marking a project as trusted also agrees to its configuration.
    fn write_agreed(
        &self,
        edits: &[KeyEdit],
        expected: Option<&str>,
    ) -> Result<ConfigWriteResponse, WriteError> {
        let written = self.write_edits(edits, expected)?;
        for project in edits.iter().filter_map(trusted_project) {
            self.inner().agreements.agree(self.home(), Path::new(project)).map_err(|source| {
                let path = self.home().path().to_path_buf();
                WriteError::Io { path, source }
            })?;
        }
        Ok(written)
    }

    /// Applies edits of the server itself.
    pub fn edit(&self, edits: &[KeyEdit]) -> Result<ConfigWriteResponse, WriteError> {
        self.write_edits(edits, None)
    }

    /// Applies a change that depends on the current content of the user's table. It can be called more than once.
    pub fn update(
        &self,
        mut change: impl FnMut(&mut Table) -> Result<(), EditError>,
    ) -> Result<(), WriteError> {
        self.change(None, |table| change(table)).map(drop)
    }

    fn write_edits(
        &self,
        edits: &[KeyEdit],
        expected: Option<&str>,
    ) -> Result<ConfigWriteResponse, WriteError> {
        let written = self.change(expected, |table| edits.iter().try_for_each(|edit| edit.apply(table)))?;
        let layers = self.inner().stack(&ConfigQuery::default()).map_err(WriteError::Unusable)?.layers;
        let overridden = edits.iter().find_map(|edit| overridden(&layers, &edit.path));
        Ok(ConfigWriteResponse {
            status: if overridden.is_some() { WriteStatus::OkOverridden } else { WriteStatus::Ok },
            version: written.version,
            file_path: user_file(self).ok_or(WriteError::Readonly)?,
            overridden_metadata: overridden,
        })
    }

    fn change(
        &self,
        expected: Option<&str>,
        mut change: impl FnMut(&mut Table) -> Result<(), EditError>,
    ) -> Result<user_file::WriteResult, WriteError> {
        user_file::update(self.home(), expected, |before| {
            let mut wanted = before.clone();
            change(&mut wanted)?;
            if wanted != *before {
                self.check_candidate(before, &wanted)?;
            }
            Ok(wanted)
        })
    }

    /// Checks that a path is the user's file, the only one that clients can write.
    fn check_target(&self, file_path: Option<&str>) -> Result<(), WriteError> {
        let user = self.home().config_file();
        let is_user = |path: &Path| path == user || same_file(path, &user);
        match file_path {
            Some(path) if !is_user(Path::new(path)) => Err(WriteError::Readonly),
            _ => Ok(()),
        }
    }

    /// Checks the new content by itself, merged with other layers, and against the requirements.
    fn check_candidate(&self, before: &Table, wanted: &Table) -> Result<(), WriteError> {
        let invalid = |problem: &dyn ToString| WriteError::Invalid(problem.to_string());
        let settings = ConfigSettings::read(wanted).map_err(|problem| invalid(&problem))?;
        check_keys(wanted, self.inner().sources.strictness).map_err(|error| invalid(&error))?;
        let whole = self.with_user_table(wanted).map_err(WriteError::Unusable)?;
        let whole = ConfigSettings::read(&whole).map_err(|problem| invalid(&problem))?;
        whole.check_whole().map_err(|problem| invalid(&problem))?;
        let requirements = self.requirements().map_err(WriteError::Unusable)?;
        // Existing violations do not prevent other changes.
        let existing = ConfigSettings::read(before).map(|before| violations(&requirements, &before));
        let existing = existing.unwrap_or_default();
        let new = violations(&requirements, &settings).into_iter().find(|reason| !existing.contains(reason));
        new.map_or(Ok(()), |reason| Err(invalid(&reason)))
    }

    /// Returns the merged layers without a working directory, with a new user table.
    fn with_user_table(&self, wanted: &Table) -> Result<Table, ConfigError> {
        let mut user = wanted.clone();
        resolve_relative_paths(&mut user, self.home().path());
        let mut whole = self.inner().system_table()?;
        merge(&mut whole, &user);
        merge(&mut whole, &self.inner().checked_flags()?);
        Ok(whole)
    }
}

/// Returns the project that an edit marks as trusted.
fn trusted_project(edit: &KeyEdit) -> Option<&str> {
    let trusted = &Json::from("trusted");
    match edit.path.keys() {
        [table, project] if table == "projects" => {
            (edit.value.get("trust_level") == Some(trusted)).then_some(project)
        }
        [table, project, key] if table == "projects" && key == "trust_level" => {
            (edit.value == *trusted).then_some(project)
        }
        _ => None,
    }
}

fn user_file(store: &ConfigStore) -> Option<AbsolutePathBuf> {
    AbsolutePathBuf::new(store.home().config_file())
}

fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => Some(real),
        (Err(_), Some(folder), Some(name)) => Some(folder.canonicalize().ok()?.join(name)),
        _ => None,
    };
    matches!((real(one), real(other)), (Some(one), Some(other)) if one == other)
}

/// Returns the reasons for which settings violate the requirements.
fn violations(requirements: &Requirements, settings: &ConfigSettings) -> Vec<String> {
    let approvals = settings.approval_policy.as_ref().map(|asked| requirements.check_approval_policy(asked));
    let sandbox = settings.sandbox_mode.as_ref().map(|asked| requirements.check_sandbox_mode(asked));
    let search = settings.web_search.as_ref().map(|asked| requirements.check_web_search(asked));
    let values = [approvals, sandbox, search].into_iter().flatten();
    let values = values.filter_map(Result::err).map(|violation| violation.to_string());
    let features = settings.features.iter().filter_map(|(name, on)| {
        let required = requirements.pinned_feature(Feature::named(name)?)?;
        (required != on).then(|| format!("`features.{name}` is required to be `{required}`"))
    });
    values.chain(features).collect()
}

/// Returns the layer that overrides a written value, if there is one.
fn overridden(layers: &LayerStack, path: &KeyPath) -> Option<OverriddenMetadata> {
    let user = layers.user().and_then(|layer| value_at(layer.table(), path.keys()));
    let merged = layers.merged();
    let effective = value_at(&merged, path.keys());
    if user == effective {
        return None;
    }
    let layer = layers.deciding_layer(path)?;
    Some(OverriddenMetadata {
        message: message(layer.source()),
        overriding_layer: layer.metadata(),
        effective_value: effective.map_or(Json::Null, to_json),
    })
}

fn message(source: &ConfigLayerSource) -> String {
    match source {
        ConfigLayerSource::System { file } => format!("Overridden by system config: {}", file.display()),
        ConfigLayerSource::User { file, .. } => format!("Overridden by user config: {}", file.display()),
        ConfigLayerSource::Project { dot_codex_folder } => {
            format!("Overridden by project config: {}", dot_codex_folder.display())
        }
        ConfigLayerSource::SessionFlags => "Overridden by session flags".to_owned(),
        _ => "Overridden by managed config".to_owned(),
    }
}
