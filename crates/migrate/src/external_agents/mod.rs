//! Imports the configuration of another agent: instructions, settings, MCP servers, skills and commands.
//!
//! [`ExternalAgents::detect`] lists what can be imported, [`ExternalAgents::import`] imports the chosen
//! items. Existing files and settings are never overwritten, imported items are not detected again, and the
//! files of the other agent do not change.
//!
//! `ConfigPlace` knows the paths, in the user's home or in a project; each of the other modules imports one
//! kind of item.

mod commands;
mod config_place;
mod import_history;
mod instructions;
mod mcp;
mod settings;
mod skills;

use std::{
    io,
    path::{Path, PathBuf},
};

use codicil_config::{ConfigStore, WriteError};
use codicil_protocol::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigMigrationItem, ExternalAgentConfigMigrationItemType,
};

pub use self::import_history::ImportHistory;

use self::config_place::ConfigPlace;

/// Reasons why items cannot be detected or imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("external agent settings root must be an object")]
    NoObject,
    #[error("invalid existing config.toml: {0}")]
    Toml(toml::de::Error),
    #[error(transparent)]
    Config(#[from] WriteError),
}

impl ImportError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Detects and imports configuration. All methods block on the disk.
#[derive(Clone)]
pub struct ExternalAgents {
    config: ConfigStore,
    /// The user's home directory, not the server's.
    user_home: Option<PathBuf>,
}

type Item = ExternalAgentConfigMigrationItem;
type Kind = ExternalAgentConfigMigrationItemType;

impl ExternalAgents {
    pub fn new(config: ConfigStore, user_home: Option<PathBuf>) -> Self {
        Self { config, user_home }
    }

    /// Returns whether items of a kind can be imported.
    pub fn can_import(kind: &Kind) -> bool {
        matches!(kind, Kind::Config | Kind::McpServerConfig | Kind::Skills | Kind::AgentsMd)
    }

    /// Returns the items that can be imported.
    pub fn detect(&self, params: &ExternalAgentConfigDetectParams) -> Result<Vec<Item>, ImportError> {
        let mut places = Vec::new();
        if params.include_home.unwrap_or(false) {
            places.extend(self.home());
        }
        for cwd in params.cwds.iter().flatten() {
            let place = ConfigPlace::project(Path::new(cwd));
            places.extend(place.filter(|place| !places.contains(place)));
        }
        let mut items = Vec::new();
        for place in &places {
            self.detect_at(place, &mut items)?;
        }
        Ok(items)
    }

    /// Imports items. Those that no longer exist, or are already present, are skipped.
    pub fn import(&self, items: &[Item]) -> Result<(), ImportError> {
        for item in items {
            let place = match &item.cwd {
                Some(cwd) => ConfigPlace::project(Path::new(cwd)),
                None => self.home(),
            };
            if let Some(place) = place {
                self.import_at(&place, &item.item_type)?;
            }
        }
        Ok(())
    }

    fn home(&self) -> Option<ConfigPlace> {
        let user_home = self.user_home.as_deref()?;
        Some(ConfigPlace::home(user_home, self.config.home().path()))
    }

    fn detect_at(&self, place: &ConfigPlace, items: &mut Vec<Item>) -> Result<(), ImportError> {
        let mut found = |item_type, description| {
            items.push(Item { item_type, description, cwd: place.cwd(), details: None });
        };
        let settings = settings::wanted(place)?;
        let servers = mcp::wanted(place)?;
        let existing = if settings.is_empty() && servers.is_empty() {
            toml::Table::new()
        } else {
            settings::existing(place)?
        };
        if settings::lacks(&existing, &settings) {
            found(
                Kind::Config,
                describe("Take over settings from", &place.settings_file(), &place.config_file()),
            );
        }
        if settings::lacks(&existing, &servers) {
            found(
                Kind::McpServerConfig,
                describe("Add the MCP servers of", &place.servers_file(), &place.config_file()),
            );
        }
        if !skills::missing(place)?.is_empty() || !commands::missing(place)?.is_empty() {
            found(
                Kind::Skills,
                describe(
                    "Copy skills and commands from",
                    &place.agent_directory(),
                    &place.skills_directory(),
                ),
            );
        }
        if let Some(source) = instructions::source(place)? {
            found(Kind::AgentsMd, describe("Copy the instructions in", &source, &place.instructions_file()));
        }
        Ok(())
    }

    fn import_at(&self, place: &ConfigPlace, kind: &Kind) -> Result<(), ImportError> {
        match kind {
            Kind::Config => settings::import(place, &self.config, settings::wanted(place)?),
            Kind::McpServerConfig => settings::import(place, &self.config, mcp::wanted(place)?),
            Kind::Skills => {
                skills::import(place)?;
                commands::import(place)
            }
            Kind::AgentsMd => instructions::import(place),
            // The handler rejects other types.
            _ => Ok(()),
        }
    }
}

fn describe(what: &str, from: &Path, to: &Path) -> String {
    format!("{what} {} to {}", from.display(), to.display())
}
