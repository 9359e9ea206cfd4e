//! Plugins from a local marketplace.

use std::fs;

use codicil_extensions::PluginId;
use codicil_protocol::{PluginAuthPolicy, PluginListParams, PluginListResponse, SkillsConfigWriteParams};
use serde_json::json;

use crate::{backend::Backend, support::TestHomes};

const MARKET: &str = "work/.agents/plugins/marketplace.json";

impl TestHomes {
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
        let installed = self.extensions.plugins.install(&self.absolute(MARKET), name);
        installed.map(|installation| installation.auth_policy).map_err(|error| error.to_string())
    }

    fn uninstall(&self) {
        self.extensions.plugins.uninstall(&"sample@market".parse::<PluginId>().unwrap()).unwrap();
        self.extensions.skills.forget();
    }

    /// Returns whether the plugin is installed, and whether it is enabled.
    fn state(&self) -> (bool, bool) {
        let params = PluginListParams { cwds: Some(vec![self.absolute("work")]), ..Default::default() };
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
fn an_installed_plugin_adds_its_skills_servers_and_apps() {
    let homes = TestHomes::new();
    homes.marketplace();
    assert_eq!(homes.state(), (false, false));

    assert_eq!(homes.install("sample"), Ok(PluginAuthPolicy::OnUse));

    assert!(homes.path("home/plugins/cache/market/sample/local/.codex-plugin/plugin.json").is_file());
    assert!(homes.config_text().contains("[plugins.\"sample@market\"]"), "{}", homes.config_text());
    assert_eq!(homes.state(), (true, true));
    assert_eq!(homes.skill_names(), ["sample:greet"]);
    assert_eq!(homes.servers(), ["plug"]);
    let plugins = homes.extensions.plugins.at(&homes.work(), &homes.load());
    assert_eq!((plugins.len(), plugins[0].display_name()), (1, "Sample"));
    assert_eq!(plugins[0].contents.apps, ["connector-x"]);

    homes.uninstall();

    assert_eq!(homes.state(), (false, false));
    assert!(homes.skill_names().is_empty() && homes.servers().is_empty());
    assert!(!homes.path("home/plugins/cache/market").exists());
    assert!(!homes.config_text().contains("sample@market"));
    homes.uninstall();
}

#[test]
fn a_disabled_plugin_has_no_effect() {
    let homes = TestHomes::new();
    homes.marketplace();
    homes.install("sample").unwrap();
    let on = homes.config_text();

    homes.write("home/config.toml", &on.replace("true", "false"));
    assert_eq!(homes.state(), (true, false));
    assert!(homes.skill_names().is_empty() && homes.servers().is_empty());

    homes.write("home/config.toml", &format!("{on}\n[features]\nplugins = false\n"));
    assert!(homes.skill_names().is_empty() && homes.servers().is_empty());
    let error = homes.install("sample").unwrap_err();
    assert_eq!(error, "plugins feature is disabled");
}

#[test]
fn a_configured_server_overrides_that_of_a_plugin() {
    let homes = TestHomes::new();
    homes.marketplace();
    homes.install("sample").unwrap();
    let text = homes.config_text();
    homes.write("home/config.toml", &format!("{text}\n[mcp_servers.plug]\ncommand = 'mine'\n"));
    assert!(homes.servers().is_empty());
}

#[test]
fn installing_again_replaces_the_old_version() {
    let homes = TestHomes::new();
    homes.marketplace();
    homes.install("sample").unwrap();
    fs::remove_dir_all(homes.path("work/plugins/sample/skills/greet")).unwrap();
    homes.skill("work/plugins/sample/skills", "wave");
    // A staging folder of a server that was killed while it copied.
    homes.write("home/plugins/cache/market/sample.staged/local/half", "x");

    homes.install("sample").unwrap();

    homes.extensions.skills.forget();
    assert_eq!(homes.skill_names(), ["sample:wave"]);
    let names: Vec<_> = fs::read_dir(homes.path("home/plugins/cache/market")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[cfg(unix)]
#[test]
fn links_are_not_copied() {
    let homes = TestHomes::new();
    homes.marketplace();
    std::os::unix::fs::symlink("/etc", homes.path("work/plugins/sample/etc")).unwrap();
    homes.install("sample").unwrap();
    assert!(fs::symlink_metadata(homes.path("home/plugins/cache/market/sample/local/etc")).is_err());
}

#[test]
fn a_failed_installation_says_why() {
    let homes = TestHomes::new();
    homes.marketplace();
    let check = |name: &str, reason: &str| assert_eq!(homes.install(name), Err(reason.to_owned()), "{name}");
    check("blocked", "plugin `blocked` is not available for install in marketplace `market`");
    check("none", "plugin `none` was not found in marketplace `market`");
    check("renamed", "plugin manifest name `sample` does not match marketplace plugin name `renamed`");
    check("bare", "missing or invalid .codex-plugin/plugin.json");
    fs::remove_dir_all(homes.path("work/plugins/bare")).unwrap();
    let gone =
        format!("plugin source path is not a directory: {}", homes.path("work/plugins/bare").display());
    check("bare", &gone);
    assert_eq!(homes.config_text(), "");
    fs::remove_file(homes.path(MARKET)).unwrap();
    check("sample", &format!("marketplace file `{}` does not exist", homes.path(MARKET).display()));
}

#[test]
fn an_invalid_plugin_does_not_spoil_its_marketplace() {
    let homes = TestHomes::new();
    homes.marketplace();
    let text = fs::read_to_string(homes.path(MARKET)).unwrap();
    for (path, words) in [
        ("../out", "start with `./`"),
        ("./", "not be empty"),
        ("./../out", "stay within the marketplace root"),
    ] {
        fs::write(homes.path(MARKET), text.replace("./plugins/bare", path)).unwrap();
        let params = PluginListParams { cwds: Some(vec![homes.absolute("work")]), ..Default::default() };
        let listed = homes.extensions.plugins.list(&params);
        assert_eq!(plugin_names(&listed), ["sample", "blocked", "renamed"]);
        let reason = format!("local plugin source path must {words}");
        assert_eq!(messages(&listed), [format!("`bare` is left out: {reason}")]);
        assert_eq!(homes.install("sample"), Ok(PluginAuthPolicy::OnUse));
        let refused = homes.install("bare").unwrap_err();
        assert!(refused.contains(&reason), "{refused}");
    }
}

/// A marketplace as Claude Code reads it, with local and remote plugins.
#[test]
fn a_claude_marketplace_is_read() {
    let homes = TestHomes::new();
    let market = json!({
        "name": "claude-market",
        "owner": { "name": "Someone" },
        "metadata": { "description": "Some plugins" },
        "plugins": [
            { "name": "local", "source": "./plugins/local", "description": "Is here", "category": "tools" },
            { "name": "elsewhere", "source": { "source": "github", "repo": "a/b" } },
            { "source": "./plugins/local" },
            17,
        ],
    });
    let file = "work/.claude-plugin/marketplace.json";
    homes.write(file, &market.to_string());
    let manifest = json!({ "name": "local", "version": "1.0.0", "author": { "name": "Someone" } });
    homes.write("work/plugins/local/.claude-plugin/plugin.json", &manifest.to_string());
    homes.skill("work/plugins/local/skills", "greet");
    let params = PluginListParams { cwds: Some(vec![homes.absolute("work")]), ..Default::default() };

    let listed = homes.extensions.plugins.list(&params);

    assert_eq!(
        (listed.marketplaces[0].name.as_str(), plugin_names(&listed)),
        ("claude-market", vec!["local"])
    );
    let left_out = messages(&listed);
    assert_eq!(
        left_out[0],
        "`elsewhere` is left out: plugin source `github` is not supported; it must be local"
    );
    assert_eq!(left_out[1], "`plugin 3` is left out: missing field `name`");
    assert!(left_out[2].starts_with("`plugin 4` is left out: "), "{left_out:?}");
    homes.extensions.plugins.install(&homes.absolute(file), "local").unwrap();
    homes.extensions.skills.forget();
    assert_eq!(homes.skill_names(), ["local:greet"]);
    // A root with both files uses its own format.
    homes.marketplace();
    assert_eq!(homes.extensions.plugins.list(&params).marketplaces[0].name, "market");
}

#[tokio::test]
async fn the_backend_features_plugins_of_the_curated_marketplace() {
    let backend = Backend::start(|request| match (request.path.as_str(), request.query.as_str()) {
        ("/backend-api/plugins/featured", "platform=codex") => {
            (200, json!(["sample@openai-curated"]).to_string())
        }
        _ => (404, String::new()),
    })
    .await;
    let homes = TestHomes::new();
    homes.write("home/config.toml", &format!("chatgpt_base_url = '{}'\n", backend.address()));
    homes.marketplace();
    let params = PluginListParams { cwds: Some(vec![homes.absolute("work")]), ..Default::default() };
    let featured = async || {
        let listed = homes.extensions.plugins.list(&params);
        homes.extensions.featured.ids(&listed, &homes.load()).await
    };
    assert!(featured().await.is_empty());
    assert!(backend.received().is_empty(), "only the curated marketplace is asked about");

    let text = fs::read_to_string(homes.path(MARKET)).unwrap();
    fs::write(homes.path(MARKET), text.replace("\"market\"", "\"openai-curated\"")).unwrap();
    assert_eq!(featured().await, ["sample@openai-curated"]);
    assert_eq!(featured().await, ["sample@openai-curated"]);
    assert_eq!(backend.received().len(), 1, "the answer is cached");
}

fn plugin_names(listed: &PluginListResponse) -> Vec<&str> {
    let plugins = listed.marketplaces.iter().flat_map(|market| &market.plugins);
    plugins.map(|plugin| plugin.name.as_str()).collect()
}

fn messages(listed: &PluginListResponse) -> Vec<&str> {
    listed.marketplace_load_errors.iter().map(|error| error.message.as_str()).collect()
}

#[test]
fn an_invalid_id_is_quoted_in_the_error() {
    let error = "../x@market".parse::<PluginId>().unwrap_err().to_string();
    assert!(error.ends_with("are allowed in `../x@market`"), "{error}");
}

#[test]
fn an_invalid_marketplace_does_not_hide_the_others() {
    let homes = TestHomes::new();
    homes.marketplace();
    homes.write("user/.agents/plugins/marketplace.json", "{ not json");
    let params = PluginListParams { cwds: Some(vec![homes.absolute("work")]), ..Default::default() };

    let listed = homes.extensions.plugins.list(&params);

    assert_eq!(listed.marketplaces.len(), 1);
    assert_eq!(plugin_names(&listed), ["sample", "blocked", "renamed", "bare"]);
    let shown = listed.marketplaces[0].plugins[0].interface.as_ref().unwrap();
    assert_eq!((shown.display_name.as_deref(), shown.category.as_deref()), (Some("Sample"), Some("Tools")));
    assert_eq!(listed.marketplace_load_errors.len(), 1);
    for source in ["../out", "/abs", "plain", "./"] {
        let market = json!({ "name": "m", "plugins": [{ "name": "p", "source": { "source": "local", "path": source } }] });
        homes.write(MARKET, &market.to_string());
        assert_eq!(homes.extensions.plugins.list(&params).marketplace_load_errors.len(), 2, "{source}");
    }
}

#[test]
fn a_plugin_can_be_read_before_it_is_installed() {
    let homes = TestHomes::new();
    homes.marketplace();
    let off = SkillsConfigWriteParams { path: None, name: Some("sample:greet".into()), enabled: false };
    homes.extensions.skills.set_enabled(&off).unwrap();

    let read = homes.extensions.plugins.read(&homes.absolute(MARKET), "sample").unwrap();

    assert_eq!(read.app_ids, ["connector-x"]);
    assert_eq!(read.detail.mcp_servers, ["plug"]);
    assert_eq!(read.detail.description.as_deref(), Some("A sample"));
    let skill = &read.detail.skills[0];
    assert_eq!((skill.name.as_str(), skill.enabled), ("sample:greet", false));
}

#[test]
fn concurrent_installations_leave_a_complete_plugin() {
    let homes = TestHomes::new();
    homes.marketplace();
    for number in 0..50 {
        homes.write(&format!("work/plugins/sample/data/{number}"), "x");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| homes.install("sample").unwrap());
        }
    });
    let data = fs::read_dir(homes.path("home/plugins/cache/market/sample/local/data")).unwrap();
    assert_eq!(data.count(), 50);
    assert_eq!(homes.state(), (true, true));
}
