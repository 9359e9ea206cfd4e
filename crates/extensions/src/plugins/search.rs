//! `plugin/installed` and `plugin/search`: parts of the list of plugins.

use codicil_protocol::{
    PluginInstalledParams, PluginInstalledResponse, PluginListParams, PluginMarketplaceEntry,
    PluginSearchParams, PluginSearchResult, PluginSummary,
};

use super::Plugins;

impl Plugins {
    /// Serves `plugin/installed`: the marketplaces that have an installed plugin or one of the suggested names, with those
    /// plugins only.
    pub fn list_installed(&self, params: &PluginInstalledParams) -> PluginInstalledResponse {
        let suggested = params.install_suggestion_plugin_names.as_deref().unwrap_or_default();
        let listed =
            self.list(&PluginListParams { cwds: params.cwds.clone(), ..PluginListParams::default() });
        let shown = |plugin: &PluginSummary| plugin.installed || suggested.contains(&plugin.name);
        let marketplaces = listed.marketplaces.into_iter().map(|mut entry| {
            entry.plugins.retain(shown);
            entry
        });
        PluginInstalledResponse {
            marketplaces: marketplaces.filter(|entry| !entry.plugins.is_empty()).collect(),
            marketplace_load_errors: listed.marketplace_load_errors,
        }
    }

    /// Returns the plugins of all marketplaces on this machine whose name or description contains the search term, ignoring
    /// case. The scopes of a remote catalogue have no plugins here.
    pub fn search(&self, params: &PluginSearchParams) -> Vec<PluginSearchResult> {
        let term = params.search_term.trim().to_lowercase();
        if params.scope.is_some() || term.is_empty() {
            return Vec::new();
        }
        let listed =
            self.list(&PluginListParams { cwds: params.cwds.clone(), ..PluginListParams::default() });
        let of_entry = |entry: PluginMarketplaceEntry| {
            let PluginMarketplaceEntry { name, path, plugins, .. } = entry;
            plugins.into_iter().map(move |plugin| PluginSearchResult {
                plugin,
                marketplace_name: name.clone(),
                marketplace_path: Some(path.clone()),
            })
        };
        let found = listed.marketplaces.into_iter().flat_map(of_entry);
        found.filter(|result| matches(&result.plugin, &term)).collect()
    }
}

fn matches(plugin: &PluginSummary, term: &str) -> bool {
    let interface = plugin.interface.as_ref();
    let shown = interface.into_iter().flat_map(|interface| {
        [&interface.display_name, &interface.short_description, &interface.long_description]
    });
    let texts = std::iter::once(&plugin.name).chain(shown.flatten());
    texts.into_iter().any(|text| text.to_lowercase().contains(term))
}
