//! Plugins from a marketplace in the workspace, and apps without an account.

use std::fs;

use codicil_protocol::{
    AppList, AppsListParams, PluginInstall, PluginList, PluginRead, PluginReadParams, PluginUninstall,
    Thread, TurnCompleted, TurnStart, rpc::ErrorObject,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

const MARKET: &str = ".agents/plugins/marketplace.json";

/// Writes a marketplace with one plugin.
fn write_marketplace(app: &App) {
    let write = |name: &str, text: String| {
        let path = app.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let source = json!({ "source": "local", "path": "./plugins/sample" });
    write(
        MARKET,
        json!({ "name": "market", "plugins": [{ "name": "sample", "source": source }] }).to_string(),
    );
    let manifest = json!({ "name": "sample", "description": "A sample" });
    write("plugins/sample/.codex-plugin/plugin.json", manifest.to_string());
    let skill = "---\nname: greet\ndescription: Greets\n---\nHELLO BODY\n";
    write("plugins/sample/skills/greet/SKILL.md", skill.to_owned());
    write("plugins/sample/.app.json", json!({ "apps": { "x": { "id": "connector-x" } } }).to_string());
}

/// Makes params that name the plugin, with more members.
fn sample<T: serde::de::DeserializeOwned>(app: &App, more: Value) -> T {
    let mut params = json!({ "marketplacePath": app.workspace().join(MARKET), "pluginName": "sample" });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    from_value(params).unwrap()
}

async fn mention(app: &mut App, thread: &Thread) {
    let mention = json!({ "type": "mention", "name": "Sample", "path": "plugin://sample@market" });
    let input = json!([{ "type": "text", "text": "@sample and $sample:greet" }, mention]);
    let params = from_value(json!({ "threadId": thread.id, "input": input })).unwrap();
    let turn = app.call::<TurnStart>(params).await.turn;
    app.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
}

/// Returns every text of a request.
fn texts(app: &App, request: usize) -> Vec<String> {
    let requests = app.model().requests();
    let parts =
        requests[request].input().iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}

#[tokio::test]
async fn an_installed_plugin_is_part_of_the_context_until_it_is_disabled() {
    let script = Script::new().say("1").then().say("2").then().say("3");
    let mut app = App::start(script).await;
    write_marketplace(&app);
    let before = app.start_thread().await;
    mention(&mut app, &before).await;

    let plugin = sample(&app, json!({}));
    let installed = app.call::<PluginInstall>(plugin).await;
    assert!(installed.apps_needing_auth.is_empty());
    let thread = app.start_thread().await;
    mention(&mut app, &thread).await;
    let gone = from_value(json!({ "pluginId": "sample@market" })).unwrap();
    app.call::<PluginUninstall>(gone).await;
    let after = app.start_thread().await;
    mention(&mut app, &after).await;

    let has = |request, needle: &str| texts(&app, request).iter().any(|text| text.contains(needle));
    for (request, expected) in [(0, false), (1, true), (2, false)] {
        for needle in [
            "<plugins_instructions>",
            "- sample:greet: Greets",
            "mentioned the plugin `sample`",
            "HELLO BODY",
        ] {
            assert_eq!(has(request, needle), expected, "request {request}: {needle}");
        }
    }
    app.ignore_rest();
}

#[tokio::test]
async fn remote_synchronization_is_refused_without_changes() {
    let mut app = App::builder().start().await;
    write_marketplace(&app);
    let forced = json!({ "forceRemoteSync": true });
    let message = |error: ErrorObject| (error.code, error.message);

    let install = sample(&app, forced.clone());
    let refused = message(app.try_call::<PluginInstall>(install).await.unwrap_err());
    let reason = "chatgpt authentication required for remote plugin mutation";
    assert_eq!(refused, (-32603, format!("failed to enable remote plugin: {reason}")));
    let uninstall = json!({ "pluginId": "sample@market", "forceRemoteSync": true });
    let refused = message(app.try_call::<PluginUninstall>(from_value(uninstall).unwrap()).await.unwrap_err());
    assert_eq!(refused, (-32603, format!("failed to uninstall remote plugin: {reason}")));
    let list = json!({ "cwds": [app.workspace()], "forceRemoteSync": true });
    let listed = app.call::<PluginList>(from_value(list).unwrap()).await;
    assert!(listed.remote_sync_error.is_some() && !listed.marketplaces[0].plugins[0].installed);
    assert!(!app.home().join("plugins").exists());
}

#[tokio::test]
async fn a_plugin_is_read_with_its_apps() {
    let mut app = App::builder().start().await;
    write_marketplace(&app);
    let plugin: PluginReadParams = sample(&app, json!({}));
    let read = app.call::<PluginRead>(plugin.clone()).await.plugin;
    assert_eq!(read.skills[0].name, "sample:greet");
    assert_eq!((read.apps[0].id.as_str(), read.apps[0].needs_auth), ("connector-x", false));
    fs::remove_file(app.workspace().join("plugins/sample/.codex-plugin/plugin.json")).unwrap();
    let error = app.try_call::<PluginRead>(plugin).await.unwrap_err();
    assert_eq!(error.message, "missing or invalid .codex-plugin/plugin.json");
}

#[tokio::test]
async fn there_are_no_apps_without_an_account() {
    let mut app = App::builder().start().await;
    let thread = app.start_thread().await;
    for thread_id in [None, Some(thread.id)] {
        let params = AppsListParams { thread_id, cursor: Some("x".into()), ..AppsListParams::default() };
        let listed = app.call::<AppList>(params).await;
        assert!(listed.data.is_empty() && listed.next_cursor.is_none());
    }
    let nobody = AppsListParams { thread_id: Some(crate::NO_THREAD.into()), ..AppsListParams::default() };
    let error = app.try_call::<AppList>(nobody).await.unwrap_err();
    assert_eq!(error.message, format!("thread not found: {}", crate::NO_THREAD));
}
