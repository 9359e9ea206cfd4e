//! `-c key=value`, `--enable`, and the `config` map of a thread.

use std::path::Path;

use codicil_config::{CommandLineFlags, ConfigQuery, ConfigSources, ConfigStore};
use serde_json::{Value, json};

use crate::support::{Machine, query, read};

/// Returns the layer of flags.
fn layer_of(flags: &[&str]) -> Value {
    let machine = Machine::new();
    let store = machine.store_with_flags(flags);
    let layers = store.read(&codicil_protocol::ConfigReadParams { include_layers: true, cwd: None });
    layers.unwrap().layers.unwrap().remove(0).config
}

#[test]
fn a_flag_is_toml_or_text() {
    let rows = [
        ("model=gpt-5.3-codex", json!({"model": "gpt-5.3-codex"})),
        ("model = \"quoted\"", json!({"model": "quoted"})),
        ("model='single'", json!({"model": "single"})),
        ("model=\"not \"toml\"", json!({"model": "not \"toml"})),
        ("features.shell_tool=false", json!({"features": {"shell_tool": false}})),
        ("model_context_window=100000", json!({"model_context_window": 100000})),
        (
            "mcp_servers.a.url=http://127.0.0.1:8000/mcp",
            json!({"mcp_servers": {"a": {"url": "http://127.0.0.1:8000/mcp"}}}),
        ),
        (
            "mcp_servers.a.enabled_tools=[\"x\",\"y\"]",
            json!({"mcp_servers": {"a": {"enabled_tools": ["x", "y"]}}}),
        ),
        ("shell_environment_policy.set={A=\"1\"}", json!({"shell_environment_policy": {"set": {"A": "1"}}})),
        (
            "projects.\"/a.b=c\".trust_level=trusted",
            json!({"projects": {"/a.b=c": {"trust_level": "trusted"}}}),
        ),
        ("plugins.'x@y.z'.enabled=true", json!({"plugins": {"x@y.z": {"enabled": true}}})),
        ("x=1\ny=2", json!({"x": "1\ny=2"})),
        ("x=", json!({"x": ""})),
        ("x=a=b", json!({"x": "a=b"})),
        ("x=1979-05-27", json!({"x": "1979-05-27"})),
    ];
    for (flag, expected) in rows {
        assert_eq!(layer_of(&[flag]), expected, "{flag}");
    }
}

#[test]
fn a_later_flag_takes_precedence() {
    assert_eq!(layer_of(&["model=a", "model=b"]), json!({"model": "b"}));
    assert_eq!(layer_of(&["x=1", "x.y=2"]), json!({"x": {"y": 2}}));
}

#[test]
fn an_invalid_flag_is_rejected_without_its_value_in_the_message() {
    let fails = |flag: &str| CommandLineFlags::parse([flag], Path::new("/")).unwrap_err().to_string();
    assert_eq!(fails("model"), "invalid override `model`: expected key=value");
    assert_eq!(fails("=sk-canary"), "invalid override ``: keyPath must not be empty");
    assert_eq!(fails("a..b=sk-canary"), "invalid override `a..b`: keyPath has an empty part: a..b");
}

#[test]
fn features_are_switched_by_name_and_unknown_names_are_rejected() {
    let machine = Machine::with_config("[features]\nshell_tool = true\n");
    let mut flags = CommandLineFlags::default();
    flags.switch_feature("shell_tool", false).unwrap();
    flags.switch_feature("collab", false).unwrap();
    let error = flags.switch_feature("bogus", true).unwrap_err();
    assert_eq!(error.to_string(), "unknown feature flag: bogus");
    let store = ConfigStore::new(ConfigSources { flags, ..machine.sources() });
    let features = store.load(&ConfigQuery::default()).unwrap().features;
    assert!(!features.enabled(codicil_config::Feature::ShellTool));
    assert!(!features.enabled(codicil_config::Feature::MultiAgent));
}

#[test]
fn a_thread_overrides_with_dotted_keys_and_null_is_ignored() {
    let machine = Machine::with_config("model = 'file'\nmodel_reasoning_effort = 'low'\n");
    let overrides = json!({
        "model": null,
        "model_reasoning_effort": "high",
        "sandbox_mode": "workspace-write",
        "sandbox_workspace_write.network_access": true,
        "sandbox_workspace_write": {"exclude_slash_tmp": true},
    });
    let config = machine.store().load(&query(None, overrides)).unwrap().settings;
    assert_eq!(config.model.as_deref(), Some("file"));
    assert_eq!(config.model_reasoning_effort, Some(codicil_protocol::ReasoningEffort::High));
    let sandbox = config.sandbox_workspace_write.unwrap();
    assert!(sandbox.network_access && sandbox.exclude_slash_tmp);
}

#[test]
fn alternative_spellings_are_normalised() {
    for (written, expected) in
        [("unlessTrusted", "untrusted"), ("always", "untrusted"), ("onRequest", "on-request")]
    {
        let machine = Machine::new();
        let store = machine.store_with_flags(&[&format!("approval_policy={written}")]);
        let policy = serde_json::to_value(read(&store, None).config.approval_policy).unwrap();
        assert_eq!(policy, expected);
    }
}
