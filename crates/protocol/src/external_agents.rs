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
    /// The agent whose settings are detected. Absent: every agent that this server knows.
    #[since("0.166")]
    pub migration_source: Option<String>,
    /// The older name of `migrationSource`.
    #[since("0.166")]
    pub source: Option<String>,
    /// Has no effect, like the next: sessions of other agents are not detected.
    #[since("0.166")]
    pub max_session_age_days: Option<u32>,
    #[since("0.166")]
    pub max_sessions: Option<u32>,
}

/// The settings that can be imported.
#[wire]
pub struct ExternalAgentConfigDetectResponse {
    pub items: Vec<ExternalAgentConfigMigrationItem>,
    /// Always empty: apps of other agents are not detected.
    #[since("0.166")]
    pub connectors: Vec<ExternalAgentDetectedConnectorCandidate>,
}

/// Imports detected items.
#[wire(sparse)]
pub struct ExternalAgentConfigImportParams {
    pub migration_items: Vec<ExternalAgentConfigMigrationItem>,
    /// A label of the client for the import, like the members below. The items say where they are from.
    #[since("0.166")]
    pub migration_source: Option<String>,
    #[since("0.166")]
    pub provider_id: Option<String>,
    #[since("0.166")]
    pub source: Option<String>,
}

/// All items have been imported.
#[wire]
#[derive(Default)]
pub struct ExternalAgentConfigImportResponse {
    /// The id of this import, for logs.
    #[since("0.166", required)]
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
    /// The names of what it contains.
    #[omit]
    #[since("0.166")]
    pub details: Option<MigrationDetails>,
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
    #[since("0.166")]
    Commands,
    #[since("0.166")]
    Hooks,
    #[since("0.166")]
    Memory,
    #[since("0.166")]
    Plugins,
    #[since("0.166")]
    Sessions,
    #[since("0.166")]
    Subagents,
}

/// Part of an import is complete.
#[wire]
pub struct ExternalAgentConfigImportProgressNotification {
    pub import_id: String,
    pub item_type_results: Vec<ExternalAgentConfigImportTypeResult>,
}

/// An import is complete.
#[wire]
pub struct ExternalAgentConfigImportCompletedNotification {
    pub import_id: String,
    pub item_type_results: Vec<ExternalAgentConfigImportTypeResult>,
}

/// What was imported of one kind.
#[wire]
pub struct ExternalAgentConfigImportTypeResult {
    pub failures: Vec<ExternalAgentConfigImportItemTypeFailure>,
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub successes: Vec<ExternalAgentConfigImportItemTypeSuccess>,
}

/// A setting that was imported.
#[wire]
pub struct ExternalAgentConfigImportItemTypeSuccess {
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub cwd: Option<String>,
    pub source: Option<String>,
    pub target: Option<String>,
    pub title: Option<String>,
}

/// A setting that could not be imported.
#[wire]
pub struct ExternalAgentConfigImportItemTypeFailure {
    pub failure_stage: String,
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub message: String,
    pub cwd: Option<String>,
    pub error_type: Option<String>,
    pub source: Option<String>,
    pub sub_error_type: Option<String>,
}

/// The imports so far, newest first.
#[wire]
pub struct ExternalAgentConfigImportHistoriesReadResponse {
    pub data: Vec<ExternalAgentConfigImportHistory>,
    pub connectors: Vec<ExternalAgentImportedConnectorCandidate>,
}

/// An import.
#[wire]
pub struct ExternalAgentConfigImportHistory {
    pub import_id: String,
    /// Unix milliseconds.
    pub completed_at_ms: i64,
    pub failures: Vec<ExternalAgentConfigImportItemTypeFailure>,
    pub successes: Vec<ExternalAgentConfigImportItemTypeSuccess>,
    pub provider_id: Option<String>,
}

/// Records an import that the client made.
#[wire]
pub struct ExternalAgentConfigImportHistoryRecordParams {
    pub provider_id: String,
    pub item_type_results: Vec<ExternalAgentConfigImportHistoryRecordTypeResultParams>,
}

/// What the client imported of one kind.
#[wire]
pub struct ExternalAgentConfigImportHistoryRecordTypeResultParams {
    pub failures: Vec<ExternalAgentConfigImportItemTypeFailure>,
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub successes: Vec<ExternalAgentConfigImportHistoryRecordSuccessParams>,
}

/// A setting that the client imported.
#[wire(sparse)]
pub struct ExternalAgentConfigImportHistoryRecordSuccessParams {
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub cwd: Option<String>,
    pub source: Option<String>,
    pub target: Option<String>,
    pub title: Option<String>,
}

/// The recorded import.
#[wire]
pub struct ExternalAgentConfigImportHistoryRecordResponse {
    pub import_id: String,
}

/// An app that the other agent uses.
#[wire]
pub struct ExternalAgentDetectedConnectorCandidate {
    pub name: String,
    pub session_count: u32,
    pub source: ExternalAgentDetectedConnectorSource,
}

/// Where an app was found.
#[wire(open)]
#[derive(Eq)]
pub enum ExternalAgentDetectedConnectorSource {
    RemoteMcpServersConfig,
    SessionToolUse,
}

/// An app that the other agent used, in a history.
#[wire]
pub struct ExternalAgentImportedConnectorCandidate {
    pub name: String,
    pub session_count: u32,
    pub source: ExternalAgentImportedConnectorSource,
}

/// Where such an app was found.
#[wire(open)]
#[derive(Eq)]
pub enum ExternalAgentImportedConnectorSource {
    RemoteMcpServersConfig,
}

/// What an item of a migration contains.
#[wire]
pub struct MigrationDetails {
    #[serde(default)]
    pub commands: Vec<CommandMigration>,
    #[serde(default)]
    pub hooks: Vec<HookMigration>,
    #[serde(default)]
    pub mcp_servers: Vec<McpServerMigration>,
    #[serde(default)]
    pub memory: Vec<String>,
    #[serde(default)]
    pub plugins: Vec<PluginsMigration>,
    #[serde(default)]
    pub sessions: Vec<SessionMigration>,
    #[serde(default)]
    pub skills: Vec<SkillMigration>,
    #[serde(default)]
    pub subagents: Vec<SubagentMigration>,
}

/// A command to import.
#[wire]
pub struct CommandMigration {
    pub name: String,
}

/// A hook to import.
#[wire]
pub struct HookMigration {
    pub name: String,
}

/// An MCP server to import.
#[wire]
pub struct McpServerMigration {
    pub name: String,
}

/// Plugins to import.
#[wire]
pub struct PluginsMigration {
    pub marketplace_name: String,
    pub plugin_names: Vec<String>,
}

/// A session to import.
#[wire]
pub struct SessionMigration {
    pub cwd: String,
    pub path: String,
    pub title: Option<String>,
}

/// A skill to import.
#[wire]
pub struct SkillMigration {
    pub name: String,
}

/// A subagent to import.
#[wire]
pub struct SubagentMigration {
    pub name: String,
}
