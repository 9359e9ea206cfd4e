//! The configuration that counts, for one working directory and one thread.

use std::{path::PathBuf, sync::Arc};

use codicil_protocol::{ConfigWarningNotification, DeprecationNoticeNotification, WebSearchMode};
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

/// Whose configuration is asked for.
#[derive(Clone, Debug, Default)]
pub struct ConfigQuery {
    /// Without it no project's files are looked at.
    pub cwd: Option<PathBuf>,
    /// The `config` map of `thread/start`, `thread/resume` or `thread/fork`.
    pub overrides: Map<String, Json>,
}

impl ConfigQuery {
    pub fn at(cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: Some(cwd.into()), overrides: Map::new() }
    }
}

/// All layers added up, the chosen profile applied, requirements enforced.
///
/// It is a snapshot: a thread keeps the one it started with until it asks again.
#[derive(Clone)]
pub struct EffectiveConfig {
    pub settings: ConfigSettings,
    pub features: Features,
    pub requirements: Arc<Requirements>,
    /// For `configWarning`.
    pub warnings: Vec<ConfigWarningNotification>,
    /// For `deprecationNotice`, after a thread has started.
    pub deprecations: Vec<DeprecationNoticeNotification>,
    /// The project around the working directory.
    pub project: Option<ProjectDirectory>,
    pub trust: Option<TrustLevel>,
    /// Configuration folders of the project that are not used until a person agrees to them.
    pub unagreed: Vec<PathBuf>,
    pub(crate) table: Table,
    pub(crate) layers: LayerStack,
}

/// The table is left out: it may hold credentials.
impl std::fmt::Debug for EffectiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EffectiveConfig")
            .field("settings", &self.settings)
            .field("layers", &self.layers)
            .finish_non_exhaustive()
    }
}

impl EffectiveConfig {
    /// Any value, also of keys that this crate gives no meaning: `value(&["hooks"])`.
    pub fn value(&self, path: &[&str]) -> Option<&Value> {
        value_at(&self.table, path)
    }

    /// `[model_providers.NAME]` of every provider, for the model crate to read.
    pub fn model_providers(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.members("model_providers")
    }

    /// `[mcp_servers.NAME]` of every server; `enabled` is false for those that requirements forbid.
    pub fn mcp_servers(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.members("mcp_servers")
    }

    fn members(&self, key: &str) -> impl Iterator<Item = (&str, &Table)> {
        let members = self.table.get(key).and_then(Value::as_table).into_iter().flatten();
        members.filter_map(|(name, member)| Some((name.as_str(), member.as_table()?)))
    }

    /// The layers, disabled ones included.
    pub fn layers(&self) -> &LayerStack {
        &self.layers
    }

    /// How the model may search the web. The key `web_search` decides; older files say it with a feature or
    /// with `tools.web_search`. `None`: nobody said anything.
    pub fn web_search(&self) -> Option<WebSearchMode> {
        let tool = match self.settings.tools.web_search {
            Some(WebSearchTool::Switch(true)) => Some(WebSearchMode::Live),
            Some(WebSearchTool::Switch(false)) => Some(WebSearchMode::Disabled),
            _ => None,
        };
        let legacy = || match () {
            _ if self.features.enabled(Feature::WebSearchCached) => Some(WebSearchMode::Cached),
            _ if self.features.enabled(Feature::WebSearchRequest) => Some(WebSearchMode::Live),
            _ => tool,
        };
        let asked = self.settings.web_search.clone().or_else(legacy)?;
        match self.requirements.check_web_search(&asked) {
            Ok(()) => Some(asked),
            Err(_) => Some(self.requirements.clamp_web_search(&asked)),
        }
    }
}
