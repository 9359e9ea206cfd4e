//! Moving in from another agent: `externalAgentConfig/detect` finds its settings,
//! `externalAgentConfig/import` takes over those that were chosen. What has been imported is not found
//! again.

use crate::wire;

/// Where to look. Nothing is looked at unless asked for.
#[wire(sparse)]
#[derive(Default)]
pub struct ExternalAgentConfigDetectParams {
    /// Look in the person's home directory too.
    pub include_home: Option<bool>,
    #[serde(default, deserialize_with = "crate::path::text::list")]
    pub cwds: Option<Vec<String>>,
}

/// What could be taken over, for a person to choose from.
#[wire]
pub struct ExternalAgentConfigDetectResponse {
    pub items: Vec<ExternalAgentConfigMigrationItem>,
}

/// The choice, made of items as they were detected.
#[wire]
pub struct ExternalAgentConfigImportParams {
    pub migration_items: Vec<ExternalAgentConfigMigrationItem>,
}

/// All of it has been taken over.
#[wire]
#[derive(Default)]
pub struct ExternalAgentConfigImportResponse {}

/// Something that can be taken over as a whole.
#[wire]
pub struct ExternalAgentConfigMigrationItem {
    pub item_type: ExternalAgentConfigMigrationItemType,
    /// For a person to read.
    pub description: String,
    /// The project it was found in; null for the home directory.
    pub cwd: Option<String>,
}

/// What an import turns the other agent's files into.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum ExternalAgentConfigMigrationItemType {
    /// Standing instructions, as an `AGENTS.md`.
    AgentsMd,
    Config,
    Skills,
    McpServerConfig,
}
