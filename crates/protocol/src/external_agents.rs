//! Importing settings of other agents: `externalAgentConfig/detect` finds them, `externalAgentConfig/import` imports the
//! selected ones. Imported settings are not detected again.

use crate::wire;

/// Detects settings of other agents in the given places.
#[wire(sparse)]
#[derive(Default)]
pub struct ExternalAgentConfigDetectParams {
    /// Searches the user's home directory.
    pub include_home: Option<bool>,
    #[serde(default, deserialize_with = "crate::path::text::list")]
    pub cwds: Option<Vec<String>>,
}

/// The settings that can be imported.
#[wire]
pub struct ExternalAgentConfigDetectResponse {
    pub items: Vec<ExternalAgentConfigMigrationItem>,
}

/// Imports detected items.
#[wire]
pub struct ExternalAgentConfigImportParams {
    pub migration_items: Vec<ExternalAgentConfigMigrationItem>,
}

/// All items have been imported.
#[wire]
#[derive(Default)]
pub struct ExternalAgentConfigImportResponse {
    /// The id of this import, for logs.
    #[since("0.166")]
    pub import_id: String,
}

/// A set of settings that is imported as a whole.
#[wire]
pub struct ExternalAgentConfigMigrationItem {
    pub item_type: ExternalAgentConfigMigrationItemType,
    /// A human-readable description.
    pub description: String,
    /// The project in which it was found; null for the home directory.
    pub cwd: Option<String>,
}

/// The result of an import.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum ExternalAgentConfigMigrationItemType {
    /// Instructions, as an `AGENTS.md`.
    AgentsMd,
    Config,
    Skills,
    McpServerConfig,
}
