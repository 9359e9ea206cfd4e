//! What a model is told of its surroundings, gathered for a turn.

use std::path::{Path, PathBuf};

use codicil_config::EffectiveConfig;
use codicil_prompts::{
    ContextSnapshot, ContextTexts, DEFAULT_MAX_DOC_BYTES, DocSearch, effective_personality, fingerprint,
    messages,
};
use codicil_protocol::ResponseItem;
use jiff::Zoned;

use crate::{
    abilities::{ExtensionLists, ExtensionSources},
    file_access::AccessSources,
    settings::TurnSettings,
};

/// Everything that is looked at. Owned, because the looking is done where blocking is allowed.
pub(crate) struct ContextInputs {
    pub settings: TurnSettings,
    /// Whether the configuration puts commands behind a proxy.
    pub hosts_by_proxy: bool,
    pub supports_personality: bool,
    pub developer_instructions: Option<String>,
    pub docs: DocSearch,
    /// What may be read in the name of the thread.
    pub access: AccessSources,
    pub abilities: ExtensionSources,
    /// What the model knows already.
    pub before: Option<ContextSnapshot>,
}

impl ContextInputs {
    /// How things are now, and what has to be said of them. Reads files: not for the runtime.
    pub fn look(self) -> (ContextSnapshot, Vec<ResponseItem>) {
        let settings = self.settings;
        let found = self.docs.run(&settings.cwd, &|path| self.access.open_instructions(path));
        for warning in &found.warnings {
            tracing::warn!("{warning}");
        }
        let rules = found.text();
        // Told once, when everything is.
        let lists = if self.before.is_none() { self.abilities.lists() } else { ExtensionLists::default() };
        let today = Zoned::now();
        let now = ContextSnapshot {
            model: settings.model,
            cwd: settings.cwd.to_string_lossy().into_owned(),
            approval_policy: settings.approval_policy,
            sandbox_policy: settings.sandbox,
            hosts_by_proxy: self.hosts_by_proxy,
            personality: effective_personality(self.supports_personality, settings.personality),
            collaboration_mode: settings.collaboration_mode,
            shell: shell_name(),
            current_date: today.date().to_string(),
            timezone: today.time_zone().iana_name().unwrap_or("UTC").to_owned(),
            agents_md: rules.as_deref().map(fingerprint),
        };
        let extras = ContextTexts {
            developer_instructions: self.developer_instructions.as_deref(),
            skills: lists.skills.as_deref(),
            plugins: lists.plugins.as_deref(),
            agents_md: rules.as_deref(),
        };
        let messages = messages(self.before.as_ref(), &now, &extras);
        (now, messages)
    }
}

/// Where rules of a project are looked for.
pub(crate) fn doc_search(config: &EffectiveConfig, home: &Path) -> DocSearch {
    DocSearch {
        home: Some(home.to_owned()),
        root_markers: config.settings.project_root_markers(),
        fallback_names: config.settings.project_doc_fallback_filenames.clone(),
        max_bytes: config.settings.project_doc_max_bytes.unwrap_or(DEFAULT_MAX_DOC_BYTES),
    }
}

fn shell_name() -> String {
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    let name = shell.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "bash".to_owned())
}
