//! Merges the apps of all sources into the list that clients receive.

use std::collections::BTreeMap;

use codicil_config::is_app_enabled;
use codicil_mcp::ToolApp;
use codicil_protocol::{AppInfo, AppsConfig};

/// Merges the apps of the directory, the connected apps, and the apps of plugins (pairs of app id and plugin
/// name). Connected apps come first; each group is sorted by name.
pub(super) fn merge(
    directory: &[AppInfo],
    accessible: &[ToolApp],
    plugin_apps: &[(String, String)],
    config: Option<&AppsConfig>,
) -> Vec<AppInfo> {
    let mut apps: BTreeMap<_, _> = directory.iter().map(|app| (app.id.clone(), app.clone())).collect();
    for connected in accessible {
        let app = apps.entry(connected.id.clone()).or_insert_with(|| unlisted(&connected.id));
        app.is_accessible = true;
        if let Some(name) = connected.name.as_ref().filter(|_| app.name == app.id) {
            app.name.clone_from(name);
            app.install_url = Some(install_url(name, &app.id));
        }
        if app.description.is_none() {
            app.description.clone_from(&connected.description);
        }
    }
    for (id, plugin) in plugin_apps {
        let app = apps.entry(id.clone()).or_insert_with(|| unlisted(id));
        if !app.plugin_display_names.contains(plugin) {
            app.plugin_display_names.push(plugin.clone());
        }
    }
    let mut apps: Vec<_> = apps.into_values().collect();
    for app in &mut apps {
        app.is_enabled = is_app_enabled(config, &app.id);
        app.plugin_display_names.sort();
    }
    apps.sort_by(|a, b| (!a.is_accessible, &a.name, &a.id).cmp(&(!b.is_accessible, &b.name, &b.id)));
    apps
}

/// Returns the URL of the page where users connect an app.
pub(super) fn install_url(name: &str, id: &str) -> String {
    format!("https://chatgpt.com/apps/{}/{id}", app_slug(name))
}

/// Returns an app of which only the id is known. The id is also its name.
pub(super) fn unlisted(id: &str) -> AppInfo {
    AppInfo {
        id: id.to_owned(),
        name: id.to_owned(),
        description: None,
        logo_url: None,
        logo_url_dark: None,
        distribution_channel: None,
        branding: None,
        app_metadata: None,
        labels: None,
        install_url: Some(install_url(id, id)),
        is_accessible: false,
        is_enabled: true,
        plugin_display_names: Vec::new(),
        icon_assets: None,
        icon_dark_assets: None,
    }
}

/// Returns a name in the form used in URLs and in `$` mentions.
pub fn app_slug(name: &str) -> String {
    let slug_char = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().map(slug_char).collect();
    match slug.trim_matches('-') {
        "" => "app".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_contain_only_ascii_alphanumerics_and_dashes() {
        let check = |name: &str, expected: &str| assert_eq!(app_slug(name), expected);
        check("Demo App", "demo-app");
        check("  A+B ", "a-b");
        check("Ünï", "n");
        check("!", "app");
    }

    #[test]
    fn apps_of_all_sources_are_merged() {
        let listed = |id: &str, name: &str| AppInfo { name: name.to_owned(), ..unlisted(id) };
        let directory = [listed("b", "Bee"), listed("a", "Ant"), listed("c", "Cat")];
        let accessible = [
            ToolApp { id: "c".into(), name: Some("Other".into()), description: Some("meows".into()) },
            ToolApp { id: "x".into(), name: Some("Extra".into()), description: None },
        ];
        let plugin_apps = [("a".to_owned(), "P".to_owned()), ("p".to_owned(), "P".to_owned())];
        let config: AppsConfig = serde_json::from_value(serde_json::json!({
            "_default": { "enabled": false }, "a": { "enabled": true }
        }))
        .unwrap();

        let apps = merge(&directory, &accessible, &plugin_apps, Some(&config));

        let summaries: Vec<_> =
            apps.iter().map(|app| (app.name.as_str(), app.is_accessible, app.is_enabled)).collect();
        assert_eq!(
            summaries,
            [
                ("Cat", true, false),
                ("Extra", true, false),
                ("Ant", false, true),
                ("Bee", false, false),
                ("p", false, false)
            ]
        );
        assert_eq!(apps[0].description.as_deref(), Some("meows"));
        assert_eq!(apps[1].install_url.as_deref(), Some("https://chatgpt.com/apps/extra/x"));
        assert_eq!(apps[2].plugin_display_names, ["P"]);
    }
}
