//! `config/read`.

use serde_json::{Value, json};

use crate::support::{Machine, read};

/// The file of the conformance scenario of this name.
const CONFIG: &str = r#"
model = "gpt-5.1-codex"
model_provider = "mock"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
model_reasoning_effort = "high"

[model_providers.mock]
name = "mock"
base_url = "http://127.0.0.1:1/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[sandbox_workspace_write]
network_access = true
[profiles.work]
model = "gpt-5.2-codex"
[tui]
notifications = true
"#;

#[test]
fn every_key_of_the_protocol_is_present_and_null_if_not_set() {
    let machine = Machine::with_config(CONFIG);
    let response = read(&machine.store(), None);
    let config = serde_json::to_value(&response.config).unwrap();
    insta::assert_snapshot!("effective_config", serde_json::to_string_pretty(&config).unwrap());
    assert_eq!(config["model_providers"]["mock"]["requires_openai_auth"], false);
    assert_eq!(config["tui"], json!({"notifications": true}));
}

#[test]
fn a_machine_without_any_file_reads_as_all_null() {
    let config = serde_json::to_value(read(&Machine::new().store(), None).config).unwrap();
    let Value::Object(members) = config else { panic!("an object") };
    assert_eq!(members.len(), 24);
    for (key, value) in members {
        let expected = if key == "profiles" { json!({}) } else { json!(null) };
        assert_eq!(value, expected, "{key}");
    }
}

#[test]
fn every_leaf_has_an_origin_and_tables_have_none() {
    let machine = Machine::with_config(CONFIG);
    let origins = read(&machine.store(), None).origins;
    let keys: Vec<_> = origins.keys().map(String::as_str).collect();
    insta::assert_snapshot!(keys.join("\n"), @r"
    approval_policy
    model
    model_provider
    model_providers.mock.base_url
    model_providers.mock.name
    model_providers.mock.request_max_retries
    model_providers.mock.stream_max_retries
    model_providers.mock.wire_api
    model_reasoning_effort
    profiles.work.model
    sandbox_mode
    sandbox_workspace_write.network_access
    tui.notifications
    ");
}

#[test]
fn layers_are_returned_on_request_with_the_content_of_their_files() {
    let machine = Machine::with_config("model = 'x'\nmodel_instructions_file = 'rel.md'\n");
    let store = machine.store();
    let params = |include_layers| codicil_protocol::ConfigReadParams { include_layers, cwd: None };
    assert_eq!(store.read(&params(false)).unwrap().layers, None);
    let layers = store.read(&params(true)).unwrap().layers.unwrap();
    assert_eq!(layers[0].config, json!({"model": "x", "model_instructions_file": "rel.md"}));
    assert_eq!(store.read(&params(true)).unwrap().origins["model"].version, layers[0].version);
}

#[test]
fn unknown_keys_and_values_are_kept() {
    let machine = Machine::with_config(
        "from_the_future = { a = [1, 2.5], when = 1979-05-27 }\n[mcp_servers.m]\ncommand = 'x'\n[tools]\nweb_search = true\n",
    );
    let config = serde_json::to_value(read(&machine.store(), None).config).unwrap();
    assert_eq!(config["from_the_future"], json!({"a": [1, 2.5], "when": "1979-05-27"}));
    assert_eq!(
        config["mcp_servers"]["m"],
        json!({"command": "x", "args": [], "enabled": true, "tool_timeout_sec": null})
    );
    assert_eq!(config["tools"], json!({"web_search": null, "view_image": null}));
}

#[test]
fn a_broken_file_is_an_error_with_its_location() {
    let machine = Machine::with_config("this is = = not toml\n");
    let params = codicil_protocol::ConfigReadParams { include_layers: false, cwd: None };
    let error = machine.store().read(&params).unwrap_err().to_string();
    assert!(machine.clean(&error).starts_with("/machine/home/config.toml:1:6: "), "{error}");
}
