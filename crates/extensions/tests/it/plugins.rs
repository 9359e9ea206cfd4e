//! Plugins from a local marketplace.

use std::fs;

use codicil_extensions::PluginId;
use codicil_protocol::{
    PluginAuthPolicy, PluginInstallParams, PluginListParams, PluginReadParams, SkillsConfigWriteParams,
};
use serde_json::json;

use crate::support::Place;

const MARKET: &str = "work/.agents/plugins/marketplace.json";

impl Place {
    fn marketplace(&self) {
        let market = json!({
            "name": "market",
            "interface": { "displayName": "Market" },
            "plugins": [
                { "name": "sample", "source": { "source": "local", "path": "./plugins/sample" }, "category": "Tools",
                  "policy": { "installation": "AVAILABLE", "authentication": "ON_USE" } },
                { "name": "blocked", "source": { "source": "local", "path": "./plugins/blocked" },
                  "policy": { "installation": "NOT_AVAILABLE" } },
                { "name": "renamed", "source": { "source": "local", "path": "./plugins/sample" } },
                { "name": "bare", "source": { "source": "local", "path": "./plugins/bare" } },
            ],
        });
        self.write(MARKET, &market.to_string());
        let manifest =
            json!({ "name": "sample", "description": "A sample", "interface": { "displayName": "Sample" } });
        self.write("work/plugins/sample/.codex-plugin/plugin.json", &manifest.to_string());
        self.write("work/plugins/bare/README", "no manifest");
        self.skill("work/plugins/sample/skills", "greet");
        let servers = json!({ "mcpServers": { "plug": { "command": "true" }, "bad": 1 } });
        self.write("work/plugins/sample/.mcp.json", &servers.to_string());
        self.write("work/plugins/sample/.app.json", r#"{ "apps": { "x": { "id": "connector-x" } } }"#);
    }

    fn install(&self, name: &str) -> Result<PluginAuthPolicy, String> {
        let params = PluginInstallParams {
            marketplace_path: self.absolute(MARKET),
            plugin_name: name.to_owned(),
            force_remote_sync: None,
        };
        let installed = self.extensions.plugins.install(&params);
        installed.map(|installation| installation.auth_policy).map_err(|error| error.to_string())
    }

    fn uninstall(&self) {
        self.extensions.plugins.uninstall(&"sample@market".parse::<PluginId>().unwrap()).unwrap();
        self.extensions.skills.forget();
    }

    /// Installed, enabled.
    fn state(&self) -> (bool, bool) {
        let params = PluginListParams { cwds: Some(vec![self.absolute("work")]), force_remote_sync: None };
        let listed = self.extensions.plugins.list(&params);
        let sample = &listed.marketplaces[0].plugins[0];
        (sample.installed, sample.enabled)
    }

    fn servers(&self) -> Vec<String> {
        self.extensions.plugins.mcp_servers(&self.load()).into_keys().collect()
    }

    fn skill_names(&self) -> Vec<String> {
        self.names().into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn an_installed_plugin_brings_its_skills_servers_and_apps() {
    let place = Place::new();
    place.marketplace();
    assert_eq!(place.state(), (false, false));

    assert_eq!(place.install("sample"), Ok(PluginAuthPolicy::OnUse));

    assert!(place.path("home/plugins/cache/market/sample/local/.codex-plugin/plugin.json").is_file());
    assert!(place.config_text().contains("[plugins.\"sample@market\"]"), "{}", place.config_text());
    assert_eq!(place.state(), (true, true));
    assert_eq!(place.skill_names(), ["sample:greet"]);
    assert_eq!(place.servers(), ["plug"]);
    let plugins = place.extensions.plugins.at(&place.work(), &place.load());
    assert_eq!((plugins.len(), plugins[0].display_name()), (1, "Sample"));
    assert_eq!(plugins[0].contents.apps, ["connector-x"]);

    place.uninstall();

    assert_eq!(place.state(), (false, false));
    assert!(place.skill_names().is_empty() && place.servers().is_empty());
    assert!(!place.path("home/plugins/cache/market").exists());
    assert!(!place.config_text().contains("sample@market"));
    place.uninstall();
}

#[test]
fn a_plugin_that_is_turned_off_brings_nothing() {
    let place = Place::new();
    place.marketplace();
    place.install("sample").unwrap();
    let on = place.config_text();

    place.write("home/config.toml", &on.replace("true", "false"));
    assert_eq!(place.state(), (true, false));
    assert!(place.skill_names().is_empty() && place.servers().is_empty());

    place.write("home/config.toml", &format!("{on}\n[features]\nplugins = false\n"));
    assert!(place.skill_names().is_empty() && place.servers().is_empty());
    let error = place.install("sample").unwrap_err();
    assert_eq!(error, "plugins feature is disabled");
}

#[test]
fn the_persons_own_server_counts_more_than_a_plugins() {
    let place = Place::new();
    place.marketplace();
    place.install("sample").unwrap();
    let text = place.config_text();
    place.write("home/config.toml", &format!("{text}\n[mcp_servers.plug]\ncommand = 'mine'\n"));
    assert!(place.servers().is_empty());
}

#[test]
fn installing_again_replaces_what_was_there() {
    let place = Place::new();
    place.marketplace();
    place.install("sample").unwrap();
    fs::remove_dir_all(place.path("work/plugins/sample/skills/greet")).unwrap();
    place.skill("work/plugins/sample/skills", "wave");
    // Left by a server that was killed while it copied.
    place.write("home/plugins/cache/market/sample.staged/local/half", "x");

    place.install("sample").unwrap();

    place.extensions.skills.forget();
    assert_eq!(place.skill_names(), ["sample:wave"]);
    let names: Vec<_> = fs::read_dir(place.path("home/plugins/cache/market")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[cfg(unix)]
#[test]
fn links_are_not_copied() {
    let place = Place::new();
    place.marketplace();
    std::os::unix::fs::symlink("/etc", place.path("work/plugins/sample/etc")).unwrap();
    place.install("sample").unwrap();
    assert!(fs::symlink_metadata(place.path("home/plugins/cache/market/sample/local/etc")).is_err());
}

#[test]
fn what_cannot_be_installed_says_why() {
    let place = Place::new();
    place.marketplace();
    let check = |name: &str, reason: &str| assert_eq!(place.install(name), Err(reason.to_owned()), "{name}");
    check("blocked", "plugin `blocked` is not available for install in marketplace `market`");
    check("none", "plugin `none` was not found in marketplace `market`");
    check("renamed", "plugin manifest name `sample` does not match marketplace plugin name `renamed`");
    check("bare", "missing or invalid .codex-plugin/plugin.json");
    fs::remove_dir_all(place.path("work/plugins/bare")).unwrap();
    let gone =
        format!("plugin source path is not a directory: {}", place.path("work/plugins/bare").display());
    check("bare", &gone);
    assert_eq!(place.config_text(), "");
    fs::remove_file(place.path(MARKET)).unwrap();
    check("sample", &format!("marketplace file `{}` does not exist", place.path(MARKET).display()));
}

#[test]
fn a_plugin_that_cannot_be_offered_stops_no_other_from_being_installed() {
    let place = Place::new();
    place.marketplace();
    let text = fs::read_to_string(place.path(MARKET)).unwrap();
    for (path, words) in [("../out", "start with `./`"), ("./", "not be empty"), ("./../out", "stay within")]
    {
        fs::write(place.path(MARKET), text.replace("./plugins/bare", path)).unwrap();
        let params = PluginListParams { cwds: Some(vec![place.absolute("work")]), force_remote_sync: None };
        let listed = place.extensions.plugins.list(&params);
        assert!(listed.marketplaces.is_empty());
        let message = &listed.marketplace_load_errors[0].message;
        assert!(message.contains(&format!("local plugin source path must {words}")), "{message}");
        assert_eq!(place.install("sample"), Ok(PluginAuthPolicy::OnUse));
        assert!(place.install("bare").is_err());
    }
}

#[test]
fn an_id_that_is_none_is_named() {
    let error = "../x@market".parse::<PluginId>().unwrap_err().to_string();
    assert!(error.ends_with("are allowed in `../x@market`"), "{error}");
}

#[test]
fn a_broken_marketplace_does_not_hide_the_others() {
    let place = Place::new();
    place.marketplace();
    place.write("user/.agents/plugins/marketplace.json", "{ not json");
    let params = PluginListParams { cwds: Some(vec![place.absolute("work")]), force_remote_sync: None };

    let listed = place.extensions.plugins.list(&params);

    assert_eq!(listed.marketplaces.len(), 1);
    let names: Vec<_> = listed.marketplaces[0].plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    assert_eq!(names, ["sample", "blocked", "renamed", "bare"]);
    let shown = listed.marketplaces[0].plugins[0].interface.as_ref().unwrap();
    assert_eq!((shown.display_name.as_deref(), shown.category.as_deref()), (Some("Sample"), Some("Tools")));
    assert_eq!(listed.marketplace_load_errors.len(), 1);
    for source in ["../out", "/abs", "plain", "./"] {
        let market = json!({ "name": "m", "plugins": [{ "name": "p", "source": { "source": "local", "path": source } }] });
        place.write(MARKET, &market.to_string());
        assert_eq!(place.extensions.plugins.list(&params).marketplace_load_errors.len(), 2, "{source}");
    }
}

#[test]
fn a_plugin_can_be_read_before_it_is_installed() {
    let place = Place::new();
    place.marketplace();
    let params =
        PluginReadParams { marketplace_path: place.absolute(MARKET), plugin_name: "sample".to_owned() };
    let off = SkillsConfigWriteParams { path: None, name: Some("sample:greet".into()), enabled: false };
    place.extensions.skills.set_enabled(&off).unwrap();

    let read = place.extensions.plugins.read(&params).unwrap();

    assert_eq!(read.app_ids, ["connector-x"]);
    assert_eq!(read.detail.mcp_servers, ["plug"]);
    assert_eq!(read.detail.description.as_deref(), Some("A sample"));
    let skill = &read.detail.skills[0];
    assert_eq!((skill.name.as_str(), skill.enabled), ("sample:greet", false));
}

#[test]
fn two_servers_that_install_at_once_leave_a_whole_plugin() {
    let place = Place::new();
    place.marketplace();
    for number in 0..50 {
        place.write(&format!("work/plugins/sample/data/{number}"), "x");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| place.install("sample").unwrap());
        }
    });
    let data = fs::read_dir(place.path("home/plugins/cache/market/sample/local/data")).unwrap();
    assert_eq!(data.count(), 50);
    assert_eq!(place.state(), (true, true));
}
