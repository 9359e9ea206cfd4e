//! The typed settings of a file with all keys.

use std::time::Duration;

use codicil_config::{CredentialsStore, HistoryPersistence, InheritEnvironment, WebSearchTool};
use codicil_protocol::{AskForApproval, ForcedLoginMethod, Personality, Verbosity, WebSearchMode};
use serde_json::json;

use crate::support::{Machine, query};

const CONFIG: &str = r#"
model = "m"
review_model = "r"
model_provider = "p"
model_context_window = 100000
model_auto_compact_token_limit = 500
model_verbosity = "low"
model_personality = "friendly"
show_raw_agent_reasoning = true
hide_agent_reasoning = false
developer_instructions = "dev"
compact_prompt = "compact"
web_search = "live"
notify = ["notify-send", "x"]
forced_login_method = "api"
cli_auth_credentials_store = "keyring"
mcp_oauth_credentials_store = "auto"
project_doc_max_bytes = 1024
project_doc_fallback_filenames = ["CLAUDE.md"]
approval_policy = { granular = { mcp_elicitations = true, rules = false, sandbox_approval = true } }

[shell_environment_policy]
inherit = "core"
exclude = ["AWS_*"]
set = { A = "1" }

[sandbox_limits]
cpu_seconds = 60
memory_bytes = 4294967296

[history]
persistence = "none"
max_bytes = 10

[tools.web_search]
context_size = "low"

[[skills.config]]
name = "mine"
enabled = false

[plugins."a@b"]

[feedback]
enabled = false

[hooks]
Stop = []

[codicil.deadlines]
tool = 1500
"#;

#[test]
fn all_keys_are_read() {
    let config = Machine::with_config(CONFIG).load().unwrap();
    let settings = &config.settings;
    assert_eq!(settings.model_context_window, Some(100_000));
    assert_eq!(settings.model_verbosity, Some(Verbosity::Low));
    let limits = settings.sandbox_limits;
    assert_eq!(
        limits.cpu_seconds.zip(limits.memory_bytes).map(|(s, b)| (s.get(), b.get())),
        Some((60, 4 << 30))
    );
    assert_eq!(limits.processes.or(limits.file_size_bytes), None);
    assert_eq!(settings.personality(), Some(Personality::Friendly));
    assert_eq!(settings.forced_login_method, Some(ForcedLoginMethod::Api));
    assert_eq!(settings.cli_auth_credentials_store, Some(CredentialsStore::Keyring));
    assert_eq!(settings.project_doc_fallback_filenames, ["CLAUDE.md"]);
    assert_eq!(config.web_search(), Some(WebSearchMode::Live));
    let granular = AskForApproval::Granular {
        mcp_elicitations: true,
        request_permissions: false,
        rules: false,
        sandbox_approval: true,
        skill_approval: false,
    };
    assert_eq!(settings.approval_policy, Some(granular));
    assert_eq!(settings.shell_environment_policy.inherit, InheritEnvironment::Core);
    assert_eq!(settings.shell_environment_policy.set["A"], "1");
    assert_eq!(settings.history.persistence, HistoryPersistence::None);
    assert!(matches!(settings.tools.web_search, Some(WebSearchTool::Settings(_))));
    assert!(!settings.skills.config[0].enabled);
    assert!(settings.plugins["a@b"].enabled, "a plugin that is listed is on");
    assert!(!settings.feedback_enabled());
    assert!(config.value(&["hooks", "Stop"]).unwrap().is_array());
    assert_eq!(settings.codicil.deadlines.tool, Duration::from_millis(1500));
    assert_eq!(settings.codicil.deadlines.connect, Duration::from_secs(15));
}

#[test]
fn the_same_file_passes_in_strict_mode() {
    let machine = Machine::with_config(CONFIG);
    let store = machine.strict();
    assert!(store.load(&codicil_config::ConfigQuery::default()).is_ok());
}

#[test]
fn an_empty_file_yields_defaults() {
    let config = Machine::new().load().unwrap();
    let settings = &config.settings;
    assert_eq!(settings.approval_policy, None);
    assert_eq!(settings.project_root_markers(), [".git"]);
    assert!(settings.feedback_enabled() && settings.view_image());
    assert_eq!(config.web_search(), None);
    assert_eq!(settings.shell_environment_policy.inherit, InheritEnvironment::All);
}

#[test]
fn web_search_is_also_found_under_its_older_names() {
    let rows = [
        ("[features]\nweb_search_request = true\n", Some(WebSearchMode::Live)),
        ("[features]\nweb_search_cached = true\n", Some(WebSearchMode::Cached)),
        ("[tools]\nweb_search = true\n", Some(WebSearchMode::Live)),
        ("[tools]\nweb_search = false\n", Some(WebSearchMode::Disabled)),
        ("web_search = 'disabled'\n[features]\nweb_search_request = true\n", Some(WebSearchMode::Disabled)),
    ];
    for (config, expected) in rows {
        assert_eq!(Machine::with_config(config).load().unwrap().web_search(), expected, "{config}");
    }
}

#[test]
fn tables_of_other_crates_are_unchanged() {
    let machine = Machine::with_config(
        "[model_providers.p]\nbase_url = 'http://x'\nextra = 1\n[mcp_servers.a]\ncommand = 'x'\n",
    );
    let config = machine.load().unwrap();
    let (name, provider) = config.model_providers().next().unwrap();
    assert_eq!((name, provider["extra"].as_integer()), ("p", Some(1)));
    assert_eq!(config.mcp_servers().map(|(name, _)| name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn prompts_can_be_files() {
    let machine = Machine::with_config(
        "instructions = 'short'\nmodel_instructions_file = 'base.md'\n\
         experimental_compact_prompt_file = 'compact.md'\n",
    );
    let missing = machine.clean(&machine.load().unwrap_err().to_string());
    assert!(missing.starts_with("failed to read /machine/home/base.md: "), "{missing}");

    machine.write("home/base.md", "be brief\n");
    machine.write("home/compact.md", " \n");
    let empty = machine.clean(&machine.load().unwrap_err().to_string());
    assert_eq!(empty, "failed to read /machine/home/compact.md: the file is empty");

    machine.write("home/compact.md", "sum up");
    let settings = machine.load().unwrap().settings;
    assert_eq!(settings.instructions.as_deref(), Some("be brief"));
    assert_eq!(settings.compact_prompt.as_deref(), Some("sum up"));
    let said = query(None, json!({"compact_prompt": "in words"}));
    assert_eq!(machine.store().load(&said).unwrap().settings.compact_prompt.as_deref(), Some("in words"));
}
