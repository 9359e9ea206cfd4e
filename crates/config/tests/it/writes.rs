//! `config/value/write` and `config/batchWrite`.

use std::fs;

use codicil_protocol::{ConfigBatchWriteParams, ConfigEdit, MergeStrategy};
use serde_json::{Value, json};

use crate::support::{Machine, answer, read, replace, write};

const COMMENTED: &str = r#"# My configuration.

# The model for everything.
model = "gpt-5.1"   # until the next one
approval_policy = 'on-request'

[sandbox_workspace_write] # see the manual
# Needed for cargo.
network_access = true
writable_roots = [
    "/a", # first
    "/b", # second
]

# Colleagues use this one.
[profiles.work]
model = "gpt-5.2-codex" # bigger
features = { apps = true, plugins = true }

[[skills.config]]
# noisy
name = "one"
enabled = false

[[skills.config]]
name = "two"
enabled = true # fine
"#;

fn after(key: &str, value: Value) -> String {
    let machine = Machine::with_config(COMMENTED);
    write(&machine.store(), key, value).unwrap();
    machine.config()
}

/// Returns only the lines that a write changes.
fn changed(key: &str, value: Value) -> String {
    let after = after(key, value);
    let gone = COMMENTED
        .lines()
        .filter(|line| !after.lines().any(|other| other == *line))
        .map(|line| format!("- {line}"));
    let come = after
        .lines()
        .filter(|line| !COMMENTED.lines().any(|other| other == *line))
        .map(|line| format!("+ {line}"));
    gone.chain(come).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_changed_value_keeps_the_comments_around_it() {
    insta::assert_snapshot!(changed("model", json!("gpt-5.3")), @r#"
    - model = "gpt-5.1"   # until the next one
    + model = "gpt-5.3"   # until the next one
    "#);
    insta::assert_snapshot!(changed("sandbox_workspace_write.network_access", json!(false)), @r"
    - network_access = true
    + network_access = false
    ");
    insta::assert_snapshot!(changed("profiles.work.features.apps", json!(false)), @r"
    - features = { apps = true, plugins = true }
    + features = { apps = false, plugins = true }
    ");
    insta::assert_snapshot!(changed("sandbox_workspace_write.writable_roots", json!(["/b", "/c"])), @r#"
    -     "/a", # first
    +     "/c",
    "#);
    let skills = json!([{"name": "one", "enabled": false}, {"name": "two", "enabled": false}, {"name": "three", "enabled": true}]);
    insta::assert_snapshot!(changed("skills.config", skills), @r#"
    - enabled = true # fine
    + enabled = false # fine
    + enabled = true
    + name = "three"
    "#);
}

#[test]
fn a_removed_key_takes_its_own_comment_and_leaves_the_others() {
    insta::assert_snapshot!(changed("model", json!(null)), @r#"
    - # The model for everything.
    - model = "gpt-5.1"   # until the next one
    "#);
    insta::assert_snapshot!(changed("profiles.work", json!(null)), @r#"
    - # Colleagues use this one.
    - [profiles.work]
    - model = "gpt-5.2-codex" # bigger
    - features = { apps = true, plugins = true }
    "#);
    insta::assert_snapshot!(changed("skills.config", json!([{"name": "two", "enabled": true}])), @r#"
    - # noisy
    - name = "one"
    - enabled = false
    "#);
}

#[test]
fn a_heading_comment_survives_the_removal_of_its_last_key() {
    let machine = Machine::with_config("# Heading.\n\n# About the model.\nmodel = 'x'\n\n[tui]\na = 1\n");
    write(&machine.store(), "model", json!(null)).unwrap();
    assert_eq!(machine.config(), "# Heading.\n\n[tui]\na = 1\n");
    write(&machine.store(), "tui", json!(null)).unwrap();
    assert_eq!(machine.config(), "# Heading.\n\n");
    write(&machine.store(), "model", json!("y")).unwrap();
    assert_eq!(machine.config(), "# Heading.\n\nmodel = \"y\"\n");
}

#[test]
fn a_new_key_is_added_to_its_table() {
    let machine = Machine::with_config(COMMENTED);
    let store = machine.store();
    write(&store, "model_reasoning_effort", json!("high")).unwrap();
    write(&store, "profiles.work.sandbox_mode", json!("read-only")).unwrap();
    write(&store, "profiles.home", json!({"model": "gpt-5.1", "tools": {"view_image": false}})).unwrap();
    write(&store, "mcp_servers.docs", json!({"command": "x", "args": ["a"], "env": {"K": "v"}})).unwrap();
    write(&store, "projects.\"/some/dir\".trust_level", json!("trusted")).unwrap();
    insta::assert_snapshot!("new_keys", machine.config());
}

#[test]
fn values_are_set_merged_replaced_and_cleared() {
    let machine = Machine::with_config("model = 'gpt-5.1-codex'\n");
    let store = machine.store();
    let upsert = |key: &str, value| {
        let mut params = replace(key, value);
        params.merge_strategy = MergeStrategy::Upsert;
        store.write_value(&params).unwrap()
    };
    write(&store, "model_reasoning_effort", json!("high")).unwrap();
    write(&store, "sandbox_workspace_write.network_access", json!(true)).unwrap();
    write(&store, "profiles.work", json!({"model": "gpt-5.2-codex"})).unwrap();
    upsert("profiles.work", json!({"model_reasoning_effort": "low"}));
    let work = read(&store, None).config.profiles["work"].clone();
    assert_eq!(work.model.as_deref(), Some("gpt-5.2-codex"));
    assert!(work.model_reasoning_effort.is_some());
    write(&store, "profiles.work", json!({"model": "gpt-5.1"})).unwrap();
    write(&store, "model_reasoning_effort", json!(null)).unwrap();
    write(&store, "model_reasoning_effort", json!(null)).unwrap();
    insta::assert_snapshot!(machine.config(), @r#"
    model = 'gpt-5.1-codex'

    [sandbox_workspace_write]
    network_access = true

    [profiles.work]
    model = "gpt-5.1"
    "#);
}

#[test]
fn errors_have_the_messages_and_codes_of_the_protocol() {
    let machine = Machine::with_config("model = 'gpt-5.2'\n");
    let store = machine.store();
    let check = |key: &str, value: Value, message: &str, code: &str| {
        let expected = json!({"message": message, "data": {"config_write_error_code": code}});
        assert_eq!(answer(write(&store, key, value)), expected);
    };
    let validation = "configValidationError";
    check(
        "model",
        json!(5),
        "Invalid configuration: invalid type: integer `5`, expected a string\nin `model`\n",
        validation,
    );
    check(
        "approval_policy",
        json!("bogus"),
        "Invalid configuration: unknown variant `bogus`, expected one of `untrusted`, `on-failure`, `on-request`, `granular`, `never`\nin `approval_policy`\n",
        validation,
    );
    check("", json!("x"), "keyPath must not be empty", validation);
    check("model.sub", json!("x"), "cannot set value on non-table parent", validation);
    check(
        "mcp_servers.a",
        json!({"enabled": true}),
        "Invalid configuration: invalid transport\nin `mcp_servers.a`\n",
        validation,
    );

    let other = |file: String| {
        let mut params = replace("model", json!("x"));
        params.file_path = Some(file);
        answer(store.write_value(&params))
    };
    let readonly = json!({
        "message": "Only writes to the user config are allowed",
        "data": {"config_write_error_code": "configLayerReadonly"},
    });
    assert_eq!(other(machine.path("ws/config.toml").display().to_string()), readonly);
    assert_eq!(other("config.toml".to_owned()), readonly);
    assert_eq!(other(machine.path("home/../home/config.toml").display().to_string())["status"], "ok");
    assert_eq!(answer(write(&store, "no_such_key_at_all", json!(1)))["status"], "ok");
}

#[test]
fn an_outdated_version_is_rejected() {
    let machine = Machine::new();
    let store = machine.store();
    let first = write(&store, "model", json!("gpt-5.2")).unwrap();
    let with = |version: &str| {
        let mut params = replace("model", json!("gpt-5.1"));
        params.expected_version = Some(version.to_owned());
        answer(store.write_value(&params))
    };
    let conflict = json!({
        "message": "Configuration was modified since last read. Fetch latest version and retry.",
        "data": {"config_write_error_code": "configVersionConflict"},
    });
    assert_eq!(with("sha256:0"), conflict);
    assert_eq!(with(&first.version)["status"], "ok");
    assert_eq!(with(&first.version), conflict);
    let layers = read(&store, None).layers.unwrap();
    assert_eq!(with(&layers[0].version)["status"], "ok");
}

#[test]
fn a_batch_is_written_as_a_whole_or_not_at_all() {
    let machine = Machine::new();
    let store = machine.store();
    let batch = |edits: &[(&str, Value)]| {
        let edits = edits.iter().map(|(key, value)| ConfigEdit {
            key_path: (*key).to_owned(),
            value: value.clone(),
            merge_strategy: MergeStrategy::Replace,
        });
        let edits = edits.collect();
        let params = ConfigBatchWriteParams {
            edits,
            file_path: None,
            expected_version: None,
            reload_user_config: None,
        };
        answer(store.batch_write(&params))
    };
    let good = batch(&[("model_reasoning_effort", json!("low")), ("tui.notifications", json!(false))]);
    assert_eq!(good["status"], "ok");
    let before = machine.config();
    let bad = batch(&[("model_reasoning_effort", json!("high")), ("approval_policy", json!("bogus"))]);
    assert_eq!(bad["data"]["config_write_error_code"], "configValidationError");
    assert_eq!(machine.config(), before);
    assert_eq!(batch(&[])["status"], "ok");
    assert_eq!(machine.config(), before);
}

#[test]
fn a_write_that_a_flag_overrides_is_reported() {
    let machine = Machine::with_config("model = 'file'\n");
    let store = machine.store_with_flags(&["model=flag"]);
    let response = write(&store, "model", json!("new")).unwrap();
    let wire = serde_json::to_value(&response).unwrap();
    assert_eq!(wire["status"], "okOverridden");
    let overridden = &wire["overriddenMetadata"];
    assert_eq!(overridden["message"], "Overridden by session flags");
    assert_eq!(overridden["overridingLayer"]["name"]["type"], "sessionFlags");
    assert_eq!(overridden["effectiveValue"], "flag");
    assert!(machine.config().contains("'new'") || machine.config().contains("\"new\""));
    assert_eq!(write(&store, "review_model", json!("x")).unwrap().overridden_metadata, None);
}

#[test]
fn a_file_with_a_syntax_error_is_not_changed_and_a_wrong_value_can_be_corrected() {
    let machine = Machine::with_config("= broken");
    let error = write(&machine.store(), "model", json!("x")).unwrap_err();
    assert_eq!(error.data(), None);
    assert_eq!(machine.config(), "= broken");
    let machine = Machine::with_config("model = 5\n");
    assert_eq!(answer(write(&machine.store(), "model", json!("x")))["status"], "ok");
    assert_eq!(machine.config(), "model = \"x\"\n");
}

#[test]
fn line_ends_and_the_byte_order_mark_are_kept() {
    let machine = Machine::with_config("\u{feff}# c\r\nmodel = 'x' # y\r\n[tui]\r\na = 1\r\n");
    write(&machine.store(), "model", json!("z")).unwrap();
    write(&machine.store(), "tui.b", json!(2)).unwrap();
    assert_eq!(machine.config(), "\u{feff}# c\r\nmodel = \"z\" # y\r\n[tui]\r\na = 1\r\nb = 2\r\n");
}

#[cfg(unix)]
#[test]
fn modes_and_links_are_kept_and_new_files_are_private() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

    let machine = Machine::new();
    fs::remove_dir(machine.path("home")).unwrap();
    write(&machine.store(), "model", json!("x")).unwrap();
    assert_eq!(mode(&machine.path("home")), 0o700);
    assert_eq!(mode(&machine.path("home/config.toml")), 0o600);
    fs::set_permissions(machine.path("home/config.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    write(&machine.store(), "model", json!("y")).unwrap();
    assert_eq!(mode(&machine.path("home/config.toml")), 0o640);

    let machine = Machine::new();
    machine.write("dotfiles/codex.toml", "# linked\n");
    symlink("../dotfiles/codex.toml", machine.path("home/config.toml")).unwrap();
    write(&machine.store(), "model", json!("x")).unwrap();
    assert!(fs::symlink_metadata(machine.path("home/config.toml")).unwrap().is_symlink());
    assert_eq!(machine.file("dotfiles/codex.toml"), "# linked\n\nmodel = \"x\"\n");
}
