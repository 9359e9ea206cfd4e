//! Reading, combining and enforcing requirements.

use codicil_config::ConfigQuery;
use codicil_protocol::{AskForApproval, SandboxMode, WebSearchMode};
use serde_json::json;

use crate::support::{Machine, answer, query, write};

const RULES: &str = r#"
allowed_approval_policies = ["untrusted", "on-request"]
allowed_sandbox_modes = ["read-only", "workspace-write", "external-sandbox"]
allowed_web_search_modes = ["cached"]
enforce_residency = "us"

[features]
apps = false

[experimental_network]
enabled = true
allowed_domains = ["example.com"]

[mcp_servers.docs.identity]
command = "docs-server"
"#;

fn machine(config: &str) -> Machine {
    let machine = Machine::with_config(config);
    machine.write("etc/requirements.toml", RULES);
    machine
}

#[test]
fn none_configured_reads_as_null() {
    let response = Machine::new().store().read_requirements().unwrap();
    assert_eq!(serde_json::to_value(response).unwrap(), json!({"requirements": null}));
}

#[test]
fn requirements_are_returned_with_the_names_of_the_protocol() {
    let response = machine("").store().read_requirements().unwrap();
    let wire = serde_json::to_value(response).unwrap();
    let requirements = &wire["requirements"];
    assert_eq!(requirements["allowedApprovalPolicies"], json!(["untrusted", "on-request"]));
    assert_eq!(requirements["allowedSandboxModes"], json!(["read-only", "workspace-write"]));
    assert_eq!(requirements["allowedWebSearchModes"], json!(["cached"]));
    assert_eq!(requirements["featureRequirements"], json!({"apps": false}));
    assert_eq!(requirements["enforceResidency"], "us");
    assert_eq!(requirements["network"]["allowedDomains"], json!(["example.com"]));
}

#[test]
fn a_configured_value_that_is_not_allowed_is_replaced_with_a_warning() {
    let machine = machine(
        "approval_policy = 'never'\nsandbox_mode = 'danger-full-access'\nweb_search = 'live'\nfeatures.apps = true\n",
    );
    let config = machine.load().unwrap();
    assert_eq!(config.settings.approval_policy, Some(AskForApproval::Untrusted));
    assert_eq!(config.settings.sandbox_mode, Some(SandboxMode::WorkspaceWrite));
    assert_eq!(config.settings.web_search, Some(WebSearchMode::Cached));
    assert!(!config.features.enabled(codicil_config::Feature::Apps));
    assert_eq!(config.value(&["sandbox_mode"]).unwrap().as_str(), Some("workspace-write"));
    let warnings: Vec<_> = config.warnings.iter().map(|warning| warning.details.clone().unwrap()).collect();
    insta::assert_snapshot!(machine.clean(&warnings.join("\n")), @r"
    `approval_policy` may not be `never`: /machine/etc/requirements.toml allows `untrusted`, `on-request`
    `sandbox_mode` may not be `danger-full-access`: /machine/etc/requirements.toml allows `read-only`, `workspace-write`
    `web_search` may not be `live`: /machine/etc/requirements.toml allows `cached`, `disabled`
    ");
}

#[test]
fn requirements_apply_to_overrides_of_a_thread() {
    let machine = machine("");
    let store = machine.store();
    let overrides = json!({"sandbox_mode": "danger-full-access", "approval_policy": "never"});
    let config = store.load(&query(None, overrides)).unwrap();
    assert_eq!(config.settings.sandbox_mode, Some(SandboxMode::WorkspaceWrite));
    assert_eq!(config.settings.approval_policy, Some(AskForApproval::Untrusted));
}

#[test]
fn allowed_and_unset_values_are_kept_without_warnings() {
    let config = machine("approval_policy = 'on-request'\nsandbox_mode = 'read-only'\n").load().unwrap();
    assert_eq!(config.settings.approval_policy, Some(AskForApproval::OnRequest));
    assert!(config.warnings.is_empty());
    let unset = machine("").load().unwrap();
    assert_eq!((unset.settings.approval_policy, unset.settings.sandbox_mode), (None, None));
    assert!(unset.warnings.is_empty());
}

#[test]
fn a_default_that_is_not_allowed_is_replaced_too() {
    let machine = Machine::new();
    machine.write(
        "etc/requirements.toml",
        "allowed_approval_policies = ['never']\nallowed_sandbox_modes = []\n",
    );
    let config = machine.load().unwrap();
    assert_eq!(config.settings.approval_policy, Some(AskForApproval::Never));
    let config = machine.store().load(&query(None, json!({"sandbox_mode": "workspace-write"}))).unwrap();
    assert_eq!(config.settings.sandbox_mode, Some(SandboxMode::ReadOnly), "read-only is always allowed");
}

#[test]
fn a_request_for_a_forbidden_value_is_rejected() {
    let machine = machine("");
    let requirements = machine.store().requirements().unwrap();
    assert!(requirements.check_approval_policy(&AskForApproval::OnRequest).is_ok());
    assert!(requirements.check_sandbox_mode(&SandboxMode::ReadOnly).is_ok());
    assert!(requirements.check_web_search(&WebSearchMode::Disabled).is_ok());
    let refused = requirements.check_sandbox_mode(&SandboxMode::DangerFullAccess).unwrap_err().to_string();
    assert_eq!(
        machine.clean(&refused),
        "`sandbox_mode` may not be `danger-full-access`: /machine/etc/requirements.toml allows `read-only`, `workspace-write`"
    );
}

#[test]
fn an_mcp_server_that_is_not_listed_is_disabled() {
    let machine =
        machine("[mcp_servers.docs]\ncommand = 'docs-server'\n[mcp_servers.other]\ncommand = 'x'\n");
    let config = machine.load().unwrap();
    let state: Vec<_> =
        config.mcp_servers().map(|(name, server)| (name, server.get("enabled").cloned())).collect();
    assert_eq!(state, [("docs", None), ("other", Some(false.into()))]);
    machine.write("home/config.toml", "[mcp_servers.docs]\ncommand = 'something else'\n");
    assert_eq!(machine.load().unwrap().mcp_servers().next().unwrap().1["enabled"], false.into());
}

#[test]
fn the_file_in_the_home_adds_requirements_and_cannot_loosen_the_system_file() {
    let machine = Machine::new();
    machine
        .write("etc/requirements.toml", "allowed_sandbox_modes = ['read-only']\n[features]\napps = false\n");
    machine.write(
        "home/requirements.toml",
        "allowed_sandbox_modes = ['danger-full-access']\nallowed_approval_policies = ['untrusted']\n[features]\napps = true\nplugins = false\n",
    );
    let requirements = machine.store().requirements().unwrap();
    assert!(requirements.check_sandbox_mode(&SandboxMode::DangerFullAccess).is_err());
    assert!(requirements.check_approval_policy(&AskForApproval::Never).is_err());
    let features = machine.store().features();
    assert!(!features.enabled(codicil_config::Feature::Apps));
    assert!(!features.enabled(codicil_config::Feature::Plugins));
    let wire = requirements.to_wire().unwrap().feature_requirements.unwrap();
    assert_eq!((wire["apps"], wire["plugins"]), (false, false));
}

#[test]
fn an_unreadable_requirements_file_is_an_error() {
    let machine = Machine::new();
    for text in ["= broken", "allowed_sandbox_modes = ['bogus']", "allowed_approval_policies = []"] {
        machine.write("etc/requirements.toml", text);
        let error = machine.store().load(&ConfigQuery::default()).unwrap_err().to_string();
        assert!(machine.clean(&error).starts_with("/machine/etc/requirements.toml:1:"), "{error}");
        assert_eq!(machine.store().warnings(&machine.path("ws")).len(), 1);
    }
}

#[test]
fn an_unknown_requirement_is_reported() {
    let machine = Machine::new();
    machine.write("etc/requirements.toml", "alowed_sandbox_modes = ['read-only']\n");
    let warnings = machine.load().unwrap().warnings;
    assert_eq!(warnings[0].summary, "The requirement `alowed_sandbox_modes` is not known and not enforced.");
}

#[test]
fn a_forbidden_value_cannot_be_written_and_an_existing_one_does_not_block_other_writes() {
    let machine = machine("sandbox_mode = 'danger-full-access'\n");
    let store = machine.store();
    assert_eq!(answer(write(&store, "model", json!("x")))["status"], "ok");
    let refused = answer(write(&store, "approval_policy", json!("never")));
    assert_eq!(refused["data"]["config_write_error_code"], "configValidationError");
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Invalid configuration: `approval_policy` may not be `never`"), "{message}");
    let refused = answer(write(&store, "features.apps", json!(true)));
    assert_eq!(refused["message"], "Invalid configuration: `features.apps` is required to be `false`");
}

#[test]
fn network_requirements_that_are_not_enforced_are_reported() {
    let machine = Machine::new();
    machine.write(
        "etc/requirements.toml",
        "[experimental_network]\nenabled = true\nallow_upstream_proxy = true\nallow_unix_sockets = ['/s']\n\
         dangerously_allow_all_unix_sockets = false\nallowed_domain = ['a']\n",
    );
    let warnings = machine.load().unwrap().warnings;
    let summaries: Vec<_> = warnings.iter().map(|warning| warning.summary.as_str()).collect();
    assert_eq!(
        summaries,
        [
            "The requirement `network.allow_upstream_proxy` has no effect.",
            "The requirement `network.allow_unix_sockets` has no effect.",
            "The requirement `experimental_network.allowed_domain` is not known and not enforced.",
        ]
    );
    machine.write("etc/requirements.toml", "[network]\nhttp_port = 0\n");
    let error = machine.store().requirements().unwrap_err().to_string();
    assert!(error.contains("a port of the proxy must not be 0"), "{error}");
}
