//! What the model knows besides the conversation: permissions, environment, project instructions, skills, plugins.
//!
//! [`ModelContext`] carries everything that these texts are made from. A thread keeps the [`ContextSnapshot`] of its
//! last turn; the next turn adds messages only for what has changed since. The texts themselves are in
//! `codicil-prompts`.
//!
//! Which skills and plugins are enabled is looked up each time; whether plugins are enabled at all is decided by the
//! thread's own configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::{EffectiveConfig, Feature};
use codicil_extensions::{Extensions, InstalledPlugin, MessageMentions, Skill};
use codicil_prompts::{
    ContextSnapshot, ContextTexts, DEFAULT_MAX_DOC_BYTES, DocSearch, PluginOffer, context_messages,
    effective_personality, fingerprint, plugin_message, plugins_text, skill_message, skills_text,
};
use codicil_protocol::{ResponseItem, UserInput};
use codicil_telemetry::spans::in_current_span;
use jiff::Zoned;

use crate::{file_access::AccessSources, profiles::ThreadProfile, settings::TurnSettings};

/// The sources of the model's context. Owned, because they are read on a thread that may block.
pub(crate) struct ModelContext {
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    pub extensions: Extensions,
    /// The home directory, which may hold instructions for all projects.
    pub home: PathBuf,
    /// The files that the thread may read.
    pub access: AccessSources,
    pub supports_personality: bool,
    pub developer_instructions: Option<String>,
}

/// The state that the model knows after an update, and the messages that bring it there.
#[derive(Default)]
pub(crate) struct ContextUpdate {
    /// `None` if the context could not be read; the model knows what it knew before.
    pub snapshot: Option<ContextSnapshot>,
    pub messages: Vec<ResponseItem>,
}

impl ModelContext {
    /// Returns the messages for what has changed since `before`; for everything if there is no `before`.
    pub async fn update(self, before: Option<ContextSnapshot>) -> ContextUpdate {
        match tokio::task::spawn_blocking(in_current_span(move || self.read_update(before.as_ref()))).await {
            Ok(update) => update,
            // Only a panic ends up here; the turn can do without.
            Err(error) => {
                tracing::error!("failed to read the context of a turn: {error}");
                ContextUpdate::default()
            }
        }
    }

    /// Returns user input as the model sees it: the message, followed by the skills and plugins that it mentions.
    pub async fn user_messages(self, input: Vec<UserInput>, mentions: MessageMentions) -> Vec<ResponseItem> {
        let read = move || {
            let message = codicil_prompts::user_message(&input, &self.settings.cwd);
            message.into_iter().chain(self.mentioned_extensions(&mentions)).collect()
        };
        // Only a panic ends up in the error.
        tokio::task::spawn_blocking(in_current_span(read)).await.unwrap_or_default()
    }

    fn read_update(self, before: Option<&ContextSnapshot>) -> ContextUpdate {
        let project = self.settings.has_environment.then_some(self.settings.cwd.as_path());
        let docs =
            doc_search(&self.home, &self.config).run(project, &|path| self.access.open_instructions(path));
        for warning in &docs.warnings {
            tracing::warn!("{warning}");
        }
        let instructions = docs.text();
        // Skills and plugins are listed once, with the full context.
        let is_full = before.is_none();
        let skills = if is_full { self.skills_text() } else { None };
        let plugins = if is_full { self.plugins_text() } else { None };
        let snapshot = self.snapshot(instructions.as_deref());
        let texts = ContextTexts {
            developer_instructions: self.developer_instructions.as_deref(),
            skills: skills.as_deref(),
            plugins: plugins.as_deref(),
            agents_md: instructions.as_deref(),
        };
        let messages = context_messages(before, &snapshot, &texts);
        ContextUpdate { snapshot: Some(snapshot), messages }
    }

    fn snapshot(&self, instructions: Option<&str>) -> ContextSnapshot {
        let settings = &self.settings;
        let today = Zoned::now();
        ContextSnapshot {
            model: settings.model.clone(),
            has_environment: settings.has_environment,
            cwd: settings.cwd.to_string_lossy().into_owned(),
            approval_policy: settings.approval_policy.clone(),
            sandbox_policy: settings.sandbox.clone(),
            hosts_by_proxy: self
                .config
                .network_proxy(settings.profile.as_ref().map(ThreadProfile::id))
                .is_some(),
            personality: effective_personality(self.supports_personality, settings.personality),
            collaboration_mode: settings.collaboration_mode.clone(),
            shell: shell_name(),
            current_date: today.date().to_string(),
            timezone: today.time_zone().iana_name().unwrap_or("UTC").to_owned(),
            agents_md: instructions.map(fingerprint),
            developer_instructions: self.developer_instructions.as_deref().map(fingerprint),
        }
    }

    fn skills_text(&self) -> Option<String> {
        if self.config.settings.skills.include_instructions == Some(false) {
            return None;
        }
        let found = self.skills();
        let offered = found.iter().filter(|skill| skill.metadata.enabled && skill.implicit);
        skills_text(offered.map(|skill| &skill.metadata))
    }

    fn plugins_text(&self) -> Option<String> {
        let plugins = self.plugins();
        let manifests = plugins.iter().map(|plugin| &plugin.manifest);
        plugins_text(manifests.map(|manifest| (manifest.name.as_str(), manifest.description.as_deref())))
    }

    fn mentioned_extensions(&self, mentions: &MessageMentions) -> Vec<ResponseItem> {
        if mentions.is_empty() {
            return Vec::new();
        }
        let found = self.skills();
        let known = mentions.choose(&found).into_iter().cloned();
        let named: Vec<_> = known.chain(self.skills_elsewhere(mentions, &found)).collect();
        let skills = named.iter().filter_map(|skill| self.skill_message(skill));
        let plugins = if mentions.plugins.is_empty() { Vec::new() } else { self.plugins() };
        let mentioned = plugins.iter().filter(|plugin| mentions.plugins.contains(&plugin.id.to_string()));
        skills.chain(mentioned.filter_map(|plugin| plugin_offer(plugin, &found))).collect()
    }

    /// Returns the skills that the client named by a path outside of all skill directories.
    fn skills_elsewhere(&self, mentions: &MessageMentions, found: &[Skill]) -> Vec<Skill> {
        let read =
            mentions.skill_paths.iter().filter_map(|path| self.extensions.skills.by_path(path.as_ref()));
        read.filter(|skill| !found.iter().any(|known| known.metadata.path == skill.metadata.path)).collect()
    }

    fn skill_message(&self, skill: &Skill) -> Option<ResponseItem> {
        let skill = &skill.metadata;
        match self.extensions.skills.instructions(skill) {
            Ok(text) => Some(skill_message(&skill.name, &skill.path, &text)),
            Err(error) => {
                tracing::warn!("failed to read the skill {}: {error}", skill.path);
                None
            }
        }
    }

    fn skills(&self) -> Vec<Skill> {
        self.extensions.skills.at(&self.settings.cwd, &self.config).skills
    }

    fn plugins(&self) -> Vec<InstalledPlugin> {
        self.extensions.plugins.at(&self.settings.cwd, &self.config)
    }
}

fn plugin_offer(plugin: &InstalledPlugin, found: &[Skill]) -> Option<ResponseItem> {
    let prefix = format!("{}:", plugin.manifest.name);
    let enabled = found.iter().map(|skill| &skill.metadata).filter(|skill| skill.enabled);
    let skills: Vec<_> =
        enabled.map(|skill| skill.name.clone()).filter(|name| name.starts_with(&prefix)).collect();
    let mcp_servers: Vec<_> = plugin.contents.mcp_servers.keys().cloned().collect();
    plugin_message(PluginOffer {
        name: &plugin.manifest.name,
        skills: &skills,
        mcp_servers: &mcp_servers,
        apps: &plugin.contents.apps,
    })
}

fn shell_name() -> String {
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    let name = shell.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "bash".to_owned())
}
/// Returns the search for instructions of projects and of the user.
pub(crate) fn doc_search(home: &Path, config: &EffectiveConfig) -> DocSearch {
    let settings = &config.settings;
    DocSearch {
        home: Some(home.to_owned()),
        root_markers: settings.project_root_markers(),
        fallback_names: settings.project_doc_fallback_filenames.clone(),
        max_bytes: settings.project_doc_max_bytes.unwrap_or(DEFAULT_MAX_DOC_BYTES),
        mentions_children: config.features.enabled(Feature::ChildAgentsMd),
    }
}
