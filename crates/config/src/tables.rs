//! Types of individual tables of the configuration.

use std::{collections::BTreeMap, fmt, num::NonZeroU64, ops::Deref};

use codicil_protocol::WebSearchToolConfig;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::settings::closed;

/// A value that is hidden in debug output.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct ConfigSecret<T>(T);

impl<T> Deref for ConfigSecret<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for ConfigSecret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// `[shell_environment_policy]`: the environment variables of commands.
///
/// Applied in this order: inherit, remove the default excludes, remove `exclude`, add `set`, keep `include_only`. Patterns are
/// case-insensitive globs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ShellEnvironmentPolicy {
    pub inherit: InheritEnvironment,
    /// `false` removes names that look like credentials (`*KEY*`, `*SECRET*`, `*TOKEN*`).
    pub ignore_default_excludes: Option<bool>,
    pub exclude: Vec<String>,
    pub set: ConfigSecret<BTreeMap<String, String>>,
    pub include_only: Vec<String>,
    pub experimental_use_profile: Option<bool>,
}

/// The environment before filtering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InheritEnvironment {
    #[default]
    All,
    /// Only the variables that a shell needs, such as `HOME`, `PATH`, `SHELL` and `USER`.
    Core,
    None,
}

/// `[sandbox_limits]`: resource limits for each process of a command. Absent: unlimited.
///
/// Zero would end every command, so it is rejected when the file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SandboxLimits {
    /// CPU time in seconds.
    pub cpu_seconds: Option<NonZeroU64>,
    /// Address space in bytes.
    pub memory_bytes: Option<NonZeroU64>,
    /// Processes and threads of the user of the server, including the server's own.
    pub processes: Option<NonZeroU64>,
    /// Maximum size of written files in bytes.
    pub file_size_bytes: Option<NonZeroU64>,
}

/// `[history]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HistorySettings {
    pub persistence: HistoryPersistence,
    pub max_bytes: Option<u64>,
}

/// Whether prompts are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryPersistence {
    #[default]
    SaveAll,
    None,
}

/// The storage of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialsStore {
    File,
    Keyring,
    /// The keyring if there is one, otherwise the file.
    Auto,
    /// Memory only.
    Ephemeral,
}

/// `[feedback]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FeedbackSettings {
    pub enabled: Option<bool>,
    /// The URL for reports. Absent: reports are only stored locally.
    pub endpoint: Option<String>,
}

/// `[projects."/path"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProjectEntry {
    pub trust_level: Option<TrustLevel>,
}

/// Whether the user trusts the configuration of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustLevel {
    Trusted,
    Untrusted,
}

/// `[plugins."NAME@MARKETPLACE"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PluginSettings {
    pub enabled: bool,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// `[marketplaces.NAME]`: a marketplace that `marketplace/add` has added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MarketplaceSettings {
    /// `local` or `git`.
    pub source_type: Option<String>,
    /// A directory, or the URL of a repository.
    pub source: Option<String>,
    /// A branch, tag or commit of the repository.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The paths of the repository to check out; empty for all.
    pub sparse_paths: Vec<String>,
}

/// `[skills]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SkillSettings {
    pub config: Vec<SkillEntry>,
    pub bundled: Option<BundledSkills>,
    /// Whether the prompt lists the skills; `true` if absent. Skills that a message mentions work in any case.
    pub include_instructions: Option<bool>,
}

/// `[[skills.config]]`: enables or disables a skill, given by path or name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SkillEntry {
    pub path: Option<String>,
    pub name: Option<String>,
    pub enabled: bool,
}

/// `[skills.bundled]`: the built-in skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct BundledSkills {
    pub enabled: bool,
}

/// `[tools]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ToolSettings {
    pub web_search: Option<WebSearchTool>,
    pub view_image: Option<bool>,
    pub update_plan: ToolSwitch,
    pub experimental_request_user_input: ToolSwitch,
}

/// The switch of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ToolSwitch {
    pub enabled: Option<bool>,
}

/// `tools.web_search`: the settings or, in older files, a flag.
#[derive(Clone, Debug, PartialEq)]
pub enum WebSearchTool {
    Switch(bool),
    Settings(WebSearchToolConfig),
}

impl<'de> Deserialize<'de> for WebSearchTool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FlagOrTable;

        impl<'de> Visitor<'de> for FlagOrTable {
            type Value = WebSearchTool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean or a table")
            }

            fn visit_bool<E>(self, on: bool) -> Result<WebSearchTool, E> {
                Ok(WebSearchTool::Switch(on))
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<WebSearchTool, M::Error> {
                let settings = closed(MapAccessDeserializer::new(map))?;
                Ok(WebSearchTool::Settings(settings.unwrap_or_default()))
            }
        }

        from.deserialize_any(FlagOrTable)
    }
}

/// `[features]`. Unknown names are kept and have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct FeatureToggles(BTreeMap<String, FeatureToggle>);

impl FeatureToggles {
    pub fn get(&self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(|toggle| toggle.0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().filter_map(|(name, toggle)| Some((name.as_str(), toggle.0?)))
    }
}

/// A flag (`name = true`), or a table with settings of the feature and the flag `enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FeatureToggle(Option<bool>);

impl<'de> Deserialize<'de> for FeatureToggle {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FlagOrTable;

        impl<'de> Visitor<'de> for FlagOrTable {
            type Value = FeatureToggle;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean")
            }

            fn visit_bool<E>(self, on: bool) -> Result<FeatureToggle, E> {
                Ok(FeatureToggle(Some(on)))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<FeatureToggle, M::Error> {
                let mut enabled = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "enabled" => enabled = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(FeatureToggle(enabled))
            }
        }

        from.deserialize_any(FlagOrTable)
    }
}
