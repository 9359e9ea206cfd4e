//! What a thread can do beyond its tools, in the words that its model is told.
//!
//! Which skills and plugins are turned on is looked up anew each time; whether there are plugins at all is
//! the thread's own configuration's business.

use std::{path::PathBuf, sync::Arc};

use codicil_config::EffectiveConfig;
use codicil_extensions::{Extensions, InstalledPlugin, MessageMentions, Skill};
use codicil_prompts::{PluginOffer, plugin_message, plugins_text, skill_message, skills_text};
use codicil_protocol::ResponseItem;

/// The skills and plugins of a thread in its directory. Owned, because the looking is done where blocking
/// is allowed.
pub(crate) struct ExtensionSources {
    pub extensions: Extensions,
    pub config: Arc<EffectiveConfig>,
    pub cwd: PathBuf,
}

/// The lists a model starts with.
#[derive(Default)]
pub(crate) struct ExtensionLists {
    pub skills: Option<String>,
    pub plugins: Option<String>,
}

impl ExtensionSources {
    /// Reads files: not for the runtime.
    pub fn lists(&self) -> ExtensionLists {
        let found = self.extensions.skills.at(&self.cwd, &self.config);
        let offered = found.skills.iter().filter(|skill| skill.metadata.enabled && skill.implicit);
        let plugins = self.plugins();
        ExtensionLists {
            skills: skills_text(offered.map(|skill| &skill.metadata)),
            plugins: plugins_text(
                plugins
                    .iter()
                    .map(|plugin| (plugin.manifest.name.as_str(), plugin.manifest.description.as_deref())),
            ),
        }
    }

    /// The messages that follow one of a person who called for something. Reads files: not for the runtime.
    pub fn called(&self, mentions: &MessageMentions) -> Vec<ResponseItem> {
        if mentions.is_empty() {
            return Vec::new();
        }
        let found = self.extensions.skills.at(&self.cwd, &self.config).skills;
        let known = mentions.choose(&found).into_iter().cloned();
        let named: Vec<_> = known.chain(self.elsewhere(mentions, &found)).collect();
        let skills = named.iter().filter_map(|skill| self.skill(skill));
        let plugins = match mentions.plugins.is_empty() {
            true => Vec::new(),
            false => self.plugins(),
        };
        let mentioned = plugins.iter().filter(|plugin| mentions.plugins.contains(&plugin.id.to_string()));
        skills.chain(mentioned.filter_map(|plugin| offer(plugin, &found))).collect()
    }

    /// Skills that a client names by files which are in none of our roots.
    fn elsewhere(&self, mentions: &MessageMentions, found: &[Skill]) -> Vec<Skill> {
        let read =
            mentions.skill_paths.iter().filter_map(|path| self.extensions.skills.by_path(path.as_ref()));
        read.filter(|skill| !found.iter().any(|known| known.metadata.path == skill.metadata.path)).collect()
    }

    fn skill(&self, skill: &Skill) -> Option<ResponseItem> {
        let skill = &skill.metadata;
        match self.extensions.skills.instructions(skill) {
            Ok(text) => Some(skill_message(&skill.name, &skill.path, &text)),
            Err(error) => {
                tracing::warn!("the skill {} cannot be read: {error}", skill.path);
                None
            }
        }
    }

    fn plugins(&self) -> Vec<InstalledPlugin> {
        self.extensions.plugins.at(&self.cwd, &self.config)
    }
}

fn offer(plugin: &InstalledPlugin, found: &[Skill]) -> Option<ResponseItem> {
    let prefix = format!("{}:", plugin.manifest.name);
    let on = found.iter().map(|skill| &skill.metadata).filter(|skill| skill.enabled);
    let skills: Vec<_> =
        on.map(|skill| skill.name.clone()).filter(|name| name.starts_with(&prefix)).collect();
    let mcp_servers: Vec<_> = plugin.contents.mcp_servers.keys().cloned().collect();
    plugin_message(PluginOffer {
        name: &plugin.manifest.name,
        skills: &skills,
        mcp_servers: &mcp_servers,
        apps: &plugin.contents.apps,
    })
}
