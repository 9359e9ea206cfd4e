//! Feature flags: precedence, switching by clients, listing.

use std::collections::BTreeMap;

use codicil_config::{CommandLineFlags, ConfigSources, ConfigStore, FEATURES, Feature, FeatureStage};
use codicil_protocol::{
    ExperimentalFeature, ExperimentalFeatureEnablementSetParams, ExperimentalFeatureListParams,
    ExperimentalFeatureStage,
};

use crate::support::Machine;

fn switch(store: &ConfigStore, wanted: &[(&str, bool)]) -> Result<BTreeMap<String, bool>, String> {
    let enablement = wanted.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
    let answer = store.set_enablement(ExperimentalFeatureEnablementSetParams { enablement });
    answer.map(|answer| answer.enablement).map_err(|error| error.to_string())
}

fn list(store: &ConfigStore) -> BTreeMap<String, ExperimentalFeature> {
    let all = store.list_features(&ExperimentalFeatureListParams::default()).unwrap();
    all.data.into_iter().map(|feature| (feature.name.clone(), feature)).collect()
}

#[test]
fn the_first_of_requirements_flag_file_switch_and_default_decides() {
    let machine = Machine::new();
    let enabled = |store: &ConfigStore| store.features().enabled(Feature::Apps);
    assert!(enabled(&machine.store()), "the default");

    let store = machine.store();
    switch(&store, &[("apps", false)]).unwrap();
    assert!(!enabled(&store), "a client's switch is above the default");

    machine.write("home/config.toml", "[features]\napps = true\n");
    assert!(enabled(&store), "the file is above the switch");

    let mut flags = CommandLineFlags::default();
    flags.switch_feature("apps", false).unwrap();
    let store = ConfigStore::new(ConfigSources { flags, ..machine.sources() });
    assert!(!enabled(&store), "the flag is above the file");

    machine.write("etc/requirements.toml", "[features]\napps = true\n");
    assert!(enabled(&store), "requirements are above everything");
}

#[test]
fn only_some_features_can_be_switched_and_all_or_none_of_a_request() {
    let machine = Machine::new();
    let store = machine.store();
    assert_eq!(switch(&store, &[]).unwrap(), BTreeMap::new());
    let answer = switch(&store, &[("plugins", false), ("apps", false)]).unwrap();
    assert_eq!(
        answer.into_iter().collect::<Vec<_>>(),
        [("apps".to_owned(), false), ("plugins".to_owned(), false)]
    );
    assert_eq!(switch(&store, &[("bogus", true)]).unwrap_err(), "invalid feature enablement `bogus`");
    assert_eq!(
        switch(&store, &[("shell_tool", false)]).unwrap_err(),
        "unsupported feature enablement `shell_tool`: currently supported features are apps, plugins, tool_search, tool_suggest, tool_call_mcp_elicitation"
    );
    assert_eq!(
        switch(&store, &[("connectors", true)]).unwrap_err(),
        "invalid feature enablement `connectors`: use `apps`"
    );
    switch(&store, &[("apps", true), ("shell_tool", false)]).unwrap_err();
    assert!(!store.features().enabled(Feature::Apps), "the refused request changed nothing");
}

#[test]
fn the_list_shows_configuration_and_switches() {
    let machine = Machine::with_config("[features]\nunified_exec = false\n");
    let store = machine.store();
    switch(&store, &[("apps", false)]).unwrap();
    let features = list(&store);
    let exec = &features["unified_exec"];
    assert_eq!((exec.enabled, exec.default_enabled), (false, true));
    assert_eq!(exec.stage, ExperimentalFeatureStage::Stable);
    assert_eq!((features["apps"].enabled, features["apps"].default_enabled), (false, true));
    for feature in features.values() {
        let in_beta = feature.stage == ExperimentalFeatureStage::Beta;
        assert_eq!(feature.display_name.is_some(), in_beta, "{}", feature.name);
        assert_eq!(feature.description.is_some(), in_beta, "{}", feature.name);
    }
}

#[test]
fn features_of_the_reference_exist_with_its_defaults() {
    let features = list(&Machine::new().store());
    let on = [
        "unified_exec",
        "shell_tool",
        "multi_agent",
        "apps",
        "plugins",
        "tool_search",
        "tool_suggest",
        "tool_call_mcp_elicitation",
        "shell_snapshot",
        "personality",
        "collaboration_modes",
        "enable_request_compression",
    ];
    let off = [
        "multi_agent_v2",
        "request_permissions_tool",
        "exec_permission_approvals",
        "default_mode_request_user_input",
        "guardian_approval",
        "codex_hooks",
        "realtime_conversation",
        "apply_patch_freeform",
        "web_search_request",
        "web_search_cached",
    ];
    assert!(on.iter().all(|name| features[*name].default_enabled));
    assert!(off.iter().all(|name| !features[*name].default_enabled));
}

#[test]
fn the_list_is_paged() {
    let machine = Machine::new();
    let store = machine.store();
    let page = |cursor: Option<&str>, limit| {
        store.list_features(&ExperimentalFeatureListParams {
            cursor: cursor.map(str::to_owned),
            limit,
            thread_id: None,
        })
    };
    let first = page(None, Some(3)).unwrap();
    assert_eq!((first.data.len(), first.next_cursor.as_deref()), (3, Some("3")));
    let second = page(Some("3"), Some(3)).unwrap();
    assert_eq!(second.data[0].name, FEATURES[3].name);
    assert_eq!(page(None, Some(0)).unwrap().data.len(), 1);
    let total = FEATURES.iter().filter(|spec| spec.stage != FeatureStage::Later).count();
    assert!(total < FEATURES.len(), "flags of later versions are not listed");
    let last = page(Some(&(total - 1).to_string()), Some(u32::MAX)).unwrap();
    assert_eq!((last.data.len(), last.next_cursor), (1, None));
    assert_eq!(page(Some(&total.to_string()), None).unwrap().data.len(), 0);
    assert_eq!(page(Some("x"), None).unwrap_err().to_string(), "invalid cursor: x");
    assert_eq!(
        page(Some("999"), None).unwrap_err().to_string(),
        format!("cursor 999 exceeds total feature flags {total}")
    );
}

#[test]
fn aliases_work_and_the_name_takes_precedence() {
    let enabled = |config: &str, feature| Machine::with_config(config).store().features().enabled(feature);
    assert!(!enabled("[features]\ncollab = false\n", Feature::MultiAgent));
    assert!(enabled("[features]\nhooks = true\n", Feature::Hooks));
    assert!(enabled("[features]\ncodex_hooks = true\nhooks = false\n", Feature::Hooks));
    assert!(!enabled("experimental_use_unified_exec_tool = false\n", Feature::UnifiedExec));
    assert!(enabled(
        "[features.multi_agent_v2]\nenabled = true\nusage_hint_text = 'x'\n",
        Feature::MultiAgentV2
    ));
    assert!(!enabled("[features]\nno_such_feature = true\n", Feature::MultiAgentV2));
}

#[test]
fn deprecated_keys_are_reported_and_unknown_features_are_not() {
    let machine = Machine::with_config(
        "tools.web_search = true\n[features]\nweb_search_request = true\nno_such_feature = true\ncollab = true\nhooks = true\n",
    );
    let notices = machine.load().unwrap().deprecations;
    let notices: Vec<_> =
        notices.into_iter().map(|notice| format!("{} {}", notice.summary, notice.details.unwrap())).collect();
    insta::assert_snapshot!(notices.join("\n"), @r#"
    `features.web_search_request` is deprecated. Set `web_search = "live"`, or "disabled".
    `features.collab` is deprecated. Use `multi_agent` in `[features]`.
    `tools.web_search` is deprecated. Set `web_search` to "live", "cached" or "disabled".
    "#);
    assert!(Machine::new().load().unwrap().deprecations.is_empty());
}

#[test]
fn a_broken_file_leaves_the_defaults() {
    let machine = Machine::with_config("= broken");
    let store = machine.store();
    assert!(store.features().enabled(Feature::UnifiedExec));
}
