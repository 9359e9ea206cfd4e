//! Precedence of profiles.

use codicil_config::ConfigQuery;
use serde_json::json;

use crate::support::{Machine, query, read};

const CONFIG: &str = r#"
model = "root"
model_reasoning_effort = "low"

[features]
apps = true

[profiles.work]
model = "profile"
sandbox_mode = "workspace-write"

[profiles.work.features]
apps = false
"#;

fn model(machine: &Machine, flags: &[&str], overrides: serde_json::Value) -> String {
    let config = machine.store_with_flags(flags).load(&query(None, overrides)).unwrap();
    config.settings.model.unwrap()
}

#[test]
fn a_profile_ranks_between_files_and_flags_or_above_flags_for_a_thread() {
    let machine = Machine::with_config(CONFIG);
    assert_eq!(model(&machine, &[], json!({})), "root");
    assert_eq!(model(&machine, &["profile=work"], json!({})), "profile");
    assert_eq!(model(&machine, &["profile=work", "model=flag"], json!({})), "flag");
    assert_eq!(model(&machine, &["model=flag"], json!({"profile": "work"})), "profile");
    assert_eq!(model(&machine, &[], json!({"profile": "work", "model": "thread"})), "thread");
}

#[test]
fn values_that_a_profile_does_not_set_come_from_other_layers() {
    let machine = Machine::with_config(&format!("profile = 'work'\n{CONFIG}"));
    let config = machine.load().unwrap();
    assert_eq!(config.settings.model_reasoning_effort, Some(codicil_protocol::ReasoningEffort::Low));
    assert_eq!(config.settings.sandbox_mode, Some(codicil_protocol::SandboxMode::WorkspaceWrite));
    assert!(!config.features.enabled(codicil_config::Feature::Apps));
}

#[test]
fn an_unknown_profile_is_an_error() {
    let machine = Machine::with_config(CONFIG);
    let store = machine.store();
    let error = store.load(&query(None, json!({"profile": "nope"}))).unwrap_err();
    assert_eq!(error.to_string(), "config profile `nope` not found");
}

#[test]
fn config_read_lists_profiles_and_does_not_apply_them() {
    let machine = Machine::with_config(&format!("profile = 'work'\n{CONFIG}"));
    let config = read(&machine.store(), None).config;
    assert_eq!(config.model.as_deref(), Some("root"));
    assert_eq!(config.profile.as_deref(), Some("work"));
    let work = serde_json::to_value(&config.profiles["work"]).unwrap();
    assert_eq!(work["model"], "profile");
    assert_eq!(work["sandbox_mode"], "workspace-write");
    for member in ["approval_policy", "personality", "model_instructions_file", "zsh_path", "windows"] {
        assert_eq!(work[member], json!(null), "{member} is there and null");
    }
}

#[test]
fn a_wrong_value_in_an_unused_profile_is_an_error() {
    let machine = Machine::with_config("[profiles.work]\nsandbox_mode = 'bogus'\n");
    let error = machine.store().load(&ConfigQuery::default()).unwrap_err().to_string();
    assert!(error.contains("config.toml:2:16: unknown variant `bogus`"), "{error}");
    assert!(error.ends_with("in `profiles.work.sandbox_mode`\n"), "{error}");
}
