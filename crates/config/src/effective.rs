//! The effective configuration for a working directory and a thread.

use std::{path::PathBuf, sync::Arc};

use codicil_protocol::{
    ConfigWarningNotification, DeprecationNoticeNotification, WebSearchMode, WebSearchToolConfig,
};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::{
    features::{Feature, Features},
    layers::{LayerStack, value_at},
    project::ProjectDirectory,
    requirements::Requirements,
    settings::ConfigSettings,
    tables::{TrustLevel, WebSearchTool},
};

/// The working directory and thread of a configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigQuery {
    /// The working directory. Without it, no project configuration is used.
    pub cwd: Option<PathBuf>,
    /// The `config` map of `thread/start`, `thread/resume` or `thread/fork`.
    pub overrides: Map<String, Json>,
}

impl ConfigQuery {
    pub fn at(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: Some(cwd.into()), overrides: Map::new() }
    }
}

/// The merged layers with the selected profile and the requirements applied.
///
/// This is a snapshot: a thread keeps it until it loads the configuration again.
#[derive(Clone)]
pub struct EffectiveConfig {
    pub settings: ConfigSettings,
    pub features: Features,
    pub requirements: Arc<Requirements>,
    /// Warnings for `configWarning`.
    pub warnings: Vec<ConfigWarningNotification>,
    /// Notices for `deprecationNotice`, sent after a thread has started.
    pub deprecations: Vec<DeprecationNoticeNotification>,
    /// The project around the working directory.
    pub project: Option<ProjectDirectory>,
    pub trust: Option<TrustLevel>,
    /// Configuration directories of the project that are not used until the user agrees.
    pub unagreed: Vec<PathBuf>,
    pub(crate) table: Table,
    pub(crate) layers: LayerStack,
}

/// Omits the table, which may contain credentials.
impl std::fmt::Debug for EffectiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EffectiveConfig")
            .field("settings", &self.settings)
            .field("layers", &self.layers)
            .finish_non_exhaustive()
    }
}

impl EffectiveConfig {
    /// Returns any value, including keys that this crate does not use, such as `value(&["hooks"])`.
    pub fn value(&self, path: &[&str]) -> Option<&Value> {
        value_at(&self.table, path)
    }

    /// Returns the tables `[model_providers.NAME]`.
    pub fn model_providers(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.members("model_providers")
    }

    /// Returns the tables `[mcp_servers.NAME]`. `enabled` is false for servers that requirements do not allow.
    pub fn mcp_servers(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.members("mcp_servers")
    }

    fn members(&self, key: &str) -> impl Iterator<Item = (&str, &Table)> {
        let members = self.table.get(key).and_then(Value::as_table).into_iter().flatten();
        members.filter_map(|(name, member)| Some((name.as_str(), member.as_table()?)))
    }

    /// Returns all layers, including disabled ones.
    pub fn layers(&self) -> &LayerStack {
        &self.layers
    }

    /// Returns the settings of web searches.
    pub fn web_search_settings(&self) -> WebSearchToolConfig {
        match &self.settings.tools.web_search {
            Some(WebSearchTool::Settings(settings)) => settings.clone(),
            Some(WebSearchTool::Switch(_)) | None => WebSearchToolConfig::default(),
        }
    }

    /// Returns the web search mode from the key `web_search` or, in older files, a feature or `tools.web_search`. `None` if it is
    /// not set.
    pub fn web_search(&self) -> Option<WebSearchMode> {
        let tool = match self.settings.tools.web_search {
            Some(WebSearchTool::Switch(true)) => Some(WebSearchMode::Live),
            Some(WebSearchTool::Switch(false)) => Some(WebSearchMode::Disabled),
            _ => None,
        };
        let legacy = || {
            if self.features.enabled(Feature::WebSearchCached) {
                Some(WebSearchMode::Cached)
            } else if self.features.enabled(Feature::WebSearchRequest) {
                Some(WebSearchMode::Live)
            } else {
                tool
            }
        };
        let asked = self.settings.web_search.clone().or_else(legacy)?;
        match self.requirements.check_web_search(&asked) {
            Ok(()) => Some(asked),
            Err(_) => Some(self.requirements.clamp_web_search(&asked)),
        }
    }
}
