//! The `[agents]` table of the configuration: how many subagents, how deep, and the roles they may have.

use std::{path::PathBuf, sync::Arc};

use codicil_config::{ConfigSettings, EffectiveConfig};

use super::AgentError;
use crate::tools::TurnTools;

/// The default number of subagents that a tree of threads may have at once.
const MAX_THREADS: usize = 6;
/// The default depth to which subagents may start subagents.
const MAX_DEPTH: u32 = 1;

pub(super) struct AgentSettings {
    pub max_threads: usize,
    pub max_depth: u32,
    /// Sorted by name.
    pub roles: Vec<AgentRole>,
}

/// A kind of subagent that the model may choose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentRole {
    pub name: String,
    pub description: String,
    instructions: Option<&'static str>,
    /// A file whose settings take precedence over those of the thread.
    config_file: Option<PathBuf>,
    pub nicknames: Vec<String>,
}

/// What a role changes.
pub(super) struct RoleEffect {
    pub config: Arc<EffectiveConfig>,
    /// The settings of the role's file alone.
    pub settings: ConfigSettings,
    pub instructions: Option<String>,
}

/// The name, the description for the model that chooses, and the instructions for the subagent.
const BUILT_IN: [(&str, &str, Option<&str>); 3] = [
    ("default", "An agent for anything; has no role in particular.", None),
    (
        "explorer",
        "Finds things out: where something is, how it works, what depends on it. Changes nothing. Several \
         may look for different things at once.",
        Some(
            "Your role is explorer: find out what you are asked and report it, with the files and lines \
             that show it. Change nothing.",
        ),
    ),
    (
        "worker",
        "Does a part of the work: writes code, repairs, tests. Tell it which files are its own.",
        Some(
            "Your role is worker: do the part of the work that you are given. Others work in the same folder \
             at the same time; keep to your files, and do not undo what is not yours.",
        ),
    ),
];

impl AgentSettings {
    pub fn new(config: &EffectiveConfig) -> Self {
        let number = |key| config.value(&["agents", key]).and_then(|value| value.as_integer());
        let mut roles: Vec<_> = BUILT_IN.iter().map(AgentRole::built_in).collect();
        let table = config.value(&["agents"]).and_then(|value| value.as_table());
        for (name, value) in table.into_iter().flatten() {
            let text = |key| value.get(key).and_then(|value| value.as_str()).map(str::to_owned);
            if !value.is_table() {
                continue;
            }
            roles.retain(|role| role.name != *name);
            let nicknames = value.get("nickname_candidates").and_then(|value| value.as_array());
            let nicknames = nicknames.into_iter().flatten().filter_map(|name| name.as_str());
            roles.push(AgentRole {
                name: name.clone(),
                description: text("description").unwrap_or_default(),
                instructions: None,
                config_file: text("config_file").map(PathBuf::from),
                nicknames: nicknames
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect(),
            });
        }
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            max_threads: number("max_threads")
                .and_then(|max| usize::try_from(max).ok())
                .unwrap_or(MAX_THREADS),
            max_depth: number("max_depth").and_then(|max| u32::try_from(max).ok()).unwrap_or(MAX_DEPTH),
            roles,
        }
    }

    pub fn role(&self, name: &str) -> Option<&AgentRole> {
        self.roles.iter().find(|role| role.name == name)
    }

    /// Returns the requested role, if one was requested.
    pub fn choose(&self, name: Option<&str>) -> Result<Option<&AgentRole>, AgentError> {
        let Some(name) = name else { return Ok(None) };
        let known = || self.roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = || AgentError::UnknownRole { name: name.to_owned(), known: known() };
        self.role(name).map(Some).ok_or_else(unknown)
    }
}

impl AgentRole {
    fn built_in((name, description, instructions): &(&str, &str, Option<&'static str>)) -> Self {
        Self {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            instructions: *instructions,
            config_file: None,
            nicknames: Vec::new(),
        }
    }
}

/// Returns the configuration of a subagent with this role.
pub(super) async fn apply_role(turn: &TurnTools, role: Option<&AgentRole>) -> Result<RoleEffect, AgentError> {
    let built_in = role.and_then(|role| role.instructions).map(str::to_owned);
    let config = turn.config.clone();
    let Some(file) = role.and_then(|role| role.config_file.clone()) else {
        return Ok(RoleEffect { config, settings: ConfigSettings::default(), instructions: built_in });
    };
    let engine = turn.thread.engine.clone();
    let loading = tokio::task::spawn_blocking(move || engine.config.with_file(&config, &file));
    // The outer error is a panic.
    let (config, settings) = loading.await.map_err(|_panic| AgentError::Ending)??;
    let instructions = settings.developer_instructions.clone().or(built_in);
    Ok(RoleEffect { config: Arc::new(config), settings, instructions })
}
