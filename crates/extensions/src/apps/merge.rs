//! One list out of what is known of apps.

use std::collections::BTreeMap;

use codicil_protocol::{AppInfo, AppsConfig};

use super::accessible::AccessibleApp;

/// The apps of the directory, those the account is connected to, and those of plugins (id and the plugin's
/// name). Connected ones first, then by name.
pub(super) fn merge(
    directory: &[AppInfo],
    accessible: &[AccessibleApp],
    of_plugins: &[(String, String)],
    config: Option<&AppsConfig>,
) -> Vec<AppInfo> {
    let mut apps: BTreeMap<_, _> = directory.iter().map(|app| (app.id.clone(), app.clone())).collect();
    for known in accessible {
        let app = apps.entry(known.id.clone()).or_insert_with(|| unlisted(&known.id));
        app.is_accessible = true;
        if let Some(name) = known.name.as_ref().filter(|_| app.name == app.id) {
            app.name.clone_from(name);
            app.install_url = Some(install_url(name, &app.id));
        }
        if app.description.is_none() {
            app.description.clone_from(&known.description);
        }
    }
    for (id, plugin) in of_plugins {
        let app = apps.entry(id.clone()).or_insert_with(|| unlisted(id));
        if !app.plugin_display_names.contains(plugin) {
            app.plugin_display_names.push(plugin.clone());
        }
    }
    let mut apps: Vec<_> = apps.into_values().collect();
    for app in &mut apps {
        app.is_enabled = is_enabled(config, &app.id);
        app.plugin_display_names.sort();
    }
    apps.sort_by(|one, other| {
        (!one.is_accessible, &one.name, &one.id).cmp(&(!other.is_accessible, &other.name, &other.id))
    });
    apps
}

/// Where a person connects an app.
pub(super) fn install_url(name: &str, id: &str) -> String {
    format!("https://chatgpt.com/apps/{}/{id}", slug(name))
}

/// An app of which only the id is known.
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
    }
}

/// A name as it is written in addresses and after a `$`.
fn slug(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter.is_ascii_alphanumeric() {
        true => letter.to_ascii_lowercase(),
        false => '-',
    });
    let slug: String = letters.collect();
    match slug.trim_matches('-') {
        "" => "app".to_owned(),
        slug => slug.to_owned(),
    }
}

fn is_enabled(config: Option<&AppsConfig>, id: &str) -> bool {
    let Some(config) = config else { return true };
    let own = config.apps.get(id).map(|app| app.enabled);
    own.or_else(|| config.default.as_ref().map(|default| default.enabled)).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_letters_and_dashes() {
        let check = |name: &str, expected: &str| assert_eq!(slug(name), expected);
        check("Demo App", "demo-app");
        check("  A+B ", "a-b");
        check("Ünï", "n");
        check("!", "app");
    }

    #[test]
    fn what_is_known_is_one_list() {
        let listed = |id: &str, name: &str| AppInfo { name: name.to_owned(), ..unlisted(id) };
        let directory = [listed("b", "Bee"), listed("a", "Ant"), listed("c", "Cat")];
        let accessible = [
            AccessibleApp { id: "c".into(), name: Some("Other".into()), description: Some("meows".into()) },
            AccessibleApp { id: "x".into(), name: Some("Extra".into()), description: None },
        ];
        let plugins = [("a".to_owned(), "P".to_owned()), ("p".to_owned(), "P".to_owned())];
        let config: AppsConfig = serde_json::from_value(serde_json::json!({
            "_default": { "enabled": false }, "a": { "enabled": true }
        }))
        .unwrap();

        let apps = merge(&directory, &accessible, &plugins, Some(&config));

        let shown: Vec<_> =
            apps.iter().map(|app| (app.name.as_str(), app.is_accessible, app.is_enabled)).collect();
        assert_eq!(
            shown,
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
