//! Apps that the user mentions: the model is pointed to their tools, and deferred ones are offered.

use std::collections::BTreeMap;

use codicil_extensions::{MessageMentions, app_slug};
use codicil_mcp::{ToolApp, ToolSet};
use codicil_prompts::app_message;
use codicil_protocol::{ResponseItem, UserInput};

use super::actor::ThreadActor;

/// An app and the names of its tools.
#[derive(Clone, Debug, PartialEq)]
struct AppTools {
    app: ToolApp,
    tools: Vec<String>,
}

impl ThreadActor {
    /// Returns the messages about the apps that an input mentions, which follow it, and offers their tools with the
    /// next request. The tools of the turn have to be known by then.
    pub(super) async fn mentioned_apps(&mut self, input: &[UserInput]) -> Vec<ResponseItem> {
        let MessageMentions { apps: ids, skill_names: names, .. } = MessageMentions::of(input);
        let apps = self.tools.mcp_tools().map(|tools| apps_of(&tools)).unwrap_or_default();
        if ids.is_empty() && (names.is_empty() || apps.is_empty()) {
            return Vec::new();
        }
        let slugs = self.without_skills(names).await;
        let mentioned = choose_apps(&apps, &ids, &slugs);
        self.offer_tools(mentioned.iter().flat_map(|app| app.tools.clone()).collect());
        mentioned.iter().map(|app| app_message(app.app.display_name(), &app.tools)).collect()
    }

    /// Puts deferred tools on the list of the running turn.
    fn offer_tools(&mut self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        if let (Some(tools), Some(active)) = (self.tools.offer_deferred(names), &mut self.active) {
            active.offered = tools;
        }
    }

    /// Returns the names that no enabled skill has.
    async fn without_skills(&self, mut names: Vec<String>) -> Vec<String> {
        if names.is_empty() {
            return names;
        }
        let skills = self.engine.extensions.skills.clone();
        let cwd = self.state.settings.cwd.clone();
        let config = self.state.config.clone();
        let found = tokio::task::spawn_blocking(move || skills.at(&cwd, &config).skills).await;
        // The error is a panic; the names are then those of apps.
        let found = found.unwrap_or_default();
        names
            .retain(|name| !found.iter().any(|skill| skill.metadata.enabled && skill.metadata.name == *name));
        names
    }
}

fn apps_of(tools: &ToolSet) -> Vec<AppTools> {
    let mut apps: BTreeMap<String, AppTools> = BTreeMap::new();
    for tool in tools.iter() {
        let Some(app) = &tool.app else { continue };
        let entry = apps.entry(app.id.clone());
        let entry = entry.or_insert_with(|| AppTools { app: app.clone(), tools: Vec::new() });
        entry.tools.push(tool.qualified_name.clone());
    }
    apps.into_values().collect()
}

/// Returns the apps with these ids, then those with these slugs, each once. An id that no app has becomes an app without
/// tools; a slug that two apps share selects neither.
fn choose_apps(apps: &[AppTools], ids: &[String], slugs: &[String]) -> Vec<AppTools> {
    let by_id = ids.iter().map(|id| {
        let found = apps.iter().find(|app| app.app.id == *id).cloned();
        let unknown = || ToolApp { id: id.clone(), name: None, description: None };
        found.unwrap_or_else(|| AppTools { app: unknown(), tools: Vec::new() })
    });
    let by_slug = slugs.iter().filter_map(|slug| {
        let mut fitting =
            apps.iter().filter(|app| app_slug(app.app.display_name()).eq_ignore_ascii_case(slug));
        fitting.next().filter(|_| fitting.next().is_none()).cloned()
    });
    let mut chosen: Vec<AppTools> = Vec::new();
    for app in by_id.chain(by_slug) {
        if !chosen.iter().any(|other| other.app.id == app.app.id) {
            chosen.push(app);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apps_are_chosen_by_id_or_by_a_slug_that_is_unique() {
        let app = |id: &str, name: &str| AppTools {
            app: ToolApp { id: id.to_owned(), name: Some(name.to_owned()), description: None },
            tools: vec![format!("{id}_tool")],
        };
        let apps = [app("a", "Demo App"), app("b", "Mail"), app("c", "mail")];
        let check = |ids: &[&str], slugs: &[&str], expected: &[(&str, usize)]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let chosen = choose_apps(&apps, &owned(ids), &owned(slugs));
            let shown: Vec<_> = chosen.iter().map(|app| (app.app.id.as_str(), app.tools.len())).collect();
            assert_eq!(shown, expected, "{ids:?} {slugs:?}");
        };
        check(&[], &["demo-app"], &[("a", 1)]);
        check(&["a"], &["Demo-App"], &[("a", 1)]);
        check(&["c", "a"], &[], &[("c", 1), ("a", 1)]);
        check(&[], &["mail"], &[]);
        check(&["gone"], &["other"], &[("gone", 0)]);
    }
}
