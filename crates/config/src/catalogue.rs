//! The catalogue: every key and feature flag that a configuration may contain, and what it does here.
//!
//! A key is obeyed, or belongs to a client, or has no effect. A key without effect is accepted, because the file may be shared
//! with the reference server, and is reported in a `configWarning` wherever it is set. The tests in `tests/it/catalogue.rs`
//! fail for a key that a type accepts and this table lacks, and for a key that the table calls obeyed and no code reads.
//!
//! `docs/config.md` lists the keys without effect; a test compares.

use codicil_protocol::ConfigWarningNotification;
use toml::{Table, Value};

use crate::{
    error::{ConfigError, ConfigProblem},
    feature_table::{FEATURES, Feature, FeatureStage},
    keypath::KeyPath,
    layers::{LayerStack, value_at},
    requirements::Requirements,
};

/// A key, with `*` for arbitrary names, and its effect. It stands for everything below it that has no entry of its own.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEntry {
    pub key: &'static str,
    pub effect: KeyEffect,
}

/// What a key or feature flag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Obeyed. Contains the code that reads the value, without spaces.
    Read(&'static str),
    /// Obeyed by clients, which get it from `config/read`.
    OfClients,
    /// No effect. Not reported for the value `except`, which describes what happens anyway.
    None { except: Option<bool>, reason: &'static str },
}

const fn read(key: &'static str, code: &'static str) -> CatalogueEntry {
    CatalogueEntry { key, effect: KeyEffect::Read(code) }
}

const fn of_clients(key: &'static str) -> CatalogueEntry {
    CatalogueEntry { key, effect: KeyEffect::OfClients }
}

const fn no_effect(key: &'static str, reason: &'static str) -> CatalogueEntry {
    CatalogueEntry { key, effect: KeyEffect::None { except: None, reason } }
}

const fn always(key: &'static str, value: bool, reason: &'static str) -> CatalogueEntry {
    CatalogueEntry { key, effect: KeyEffect::None { except: Some(value), reason } }
}

/// Every key of `config.toml` except `[features]`, whose flags are in `feature_table.rs`. Profiles contain the same keys.
#[rustfmt::skip]
pub const CATALOGUE: &[CatalogueEntry] = &[
    read("model", "set.model.clone()"),
    read("review_model", "settings.review_model"),
    read("model_provider", "settings.model_provider"),
    read("model_context_window", "settings.model_context_window"),
    read("model_auto_compact_token_limit", "settings.model_auto_compact_token_limit"),
    read("model_reasoning_effort", "set.model_reasoning_effort"),
    read("plan_mode_reasoning_effort", "settings.plan_mode_reasoning_effort"),
    read("model_reasoning_summary", "set.model_reasoning_summary"),
    read("model_supports_reasoning_summaries", "settings.model_supports_reasoning_summaries"),
    read("model_verbosity", "settings.model_verbosity"),
    read("personality", "set.personality()"),
    read("model_personality", "set.personality()"),
    read("service_tier", "set.service_tier"),
    no_effect("model_catalog_json", "The list of models is built in, or comes from the provider."),
    no_effect("oss_provider", "Select a local provider with `model_provider`."),

    read("approval_policy", "set.approval_policy"),
    read("approvals_reviewer", "set.approvals_reviewer"),
    read("sandbox_mode", "set.sandbox_mode"),
    read("sandbox_workspace_write.writable_roots", "set.writable_roots"),
    read("sandbox_workspace_write.network_access", "set.network_access"),
    read("sandbox_workspace_write.exclude_tmpdir_env_var", "set.exclude_tmpdir_env_var"),
    read("sandbox_workspace_write.exclude_slash_tmp", "set.exclude_slash_tmp"),
    read("sandbox_limits.cpu_seconds", "set.cpu_seconds"),
    read("sandbox_limits.memory_bytes", "set.memory_bytes"),
    read("sandbox_limits.processes", "set.processes"),
    read("sandbox_limits.file_size_bytes", "set.file_size_bytes"),
    read("default_permissions", "settings.default_permissions"),
    read("permissions.*.description", "profile.description"),
    read("permissions.*.extends", "profile.extends"),
    read("permissions.*.filesystem", "profile.filesystem"),
    read("permissions.*.network.enabled", "table.enabled"),
    read("permissions.*.network.mode", "table.mode"),
    read("permissions.*.network.domains", "table.domains"),
    read("permissions.*.network.allowed_domains", "table.allowed_domains"),
    read("permissions.*.network.denied_domains", "table.denied_domains"),
    read("permissions.*.network.allow_local_binding", "table.allow_local_binding"),
    read("permissions.*.network.proxy_url", "table.proxy_url"),
    read("permissions.*.network.socks_url", "table.socks_url"),
    read("permissions.*.network.enable_socks5", "table.enable_socks5"),
    always("permissions.*.network.enable_socks5_udp", false, "The proxy of commands carries TCP only."),
    always("permissions.*.network.allow_upstream_proxy", false, "The proxy of commands connects to hosts directly."),
    always("permissions.*.network.dangerously_allow_non_loopback_proxy", false, "Only the command itself can reach its proxy."),
    always("permissions.*.network.dangerously_allow_all_unix_sockets", false, "Commands behind the proxy reach no sockets of this machine."),
    no_effect("permissions.*.network.unix_sockets", "Commands behind the proxy reach no sockets of this machine."),
    no_effect("permissions.*.network.allow_unix_sockets", "Commands behind the proxy reach no sockets of this machine."),
    read("shell_environment_policy.inherit", "set.inherit"),
    read("shell_environment_policy.ignore_default_excludes", "set.ignore_default_excludes"),
    read("shell_environment_policy.exclude", "set.exclude.clone()"),
    read("shell_environment_policy.set", "(*set.set)"),
    read("shell_environment_policy.include_only", "set.include_only"),
    no_effect("shell_environment_policy.experimental_use_profile", "Commands run in a login shell unless `allow_login_shell` is false."),
    read("allow_login_shell", "settings.allow_login_shell"),

    read("instructions", "settings.instructions"),
    read("developer_instructions", "config.settings.developer_instructions"),
    read("model_instructions_file", "self.model_instructions_file"),
    read("experimental_instructions_file", "self.experimental_instructions_file"),
    read("compact_prompt", "settings.compact_prompt"),
    read("experimental_compact_prompt_file", "self.experimental_compact_prompt_file"),
    read("project_doc_max_bytes", "settings.project_doc_max_bytes"),
    read("project_doc_fallback_filenames", "settings.project_doc_fallback_filenames"),
    read("project_root_markers", "settings.project_root_markers()"),
    no_effect("commit_attribution", "Codicil adds nothing to commit messages."),

    read("web_search", "settings.web_search"),
    read("tools.web_search", "config.web_search_settings()"),
    read("tools.view_image", "settings.view_image()"),
    read("tools.update_plan.enabled", "settings.update_plan()"),
    read("tools.experimental_request_user_input.enabled", "settings.request_user_input()"),
    read("tools_view_image", "settings.view_image()"),
    read("include_apply_patch_tool", "settings.include_apply_patch_tool"),
    read("experimental_use_freeform_apply_patch", "settings.experimental_use_freeform_apply_patch"),
    read("experimental_use_unified_exec_tool", "settings.experimental_use_unified_exec_tool"),
    read("tool_output_token_limit", "settings.tool_output_token_limit"),
    read("background_terminal_max_timeout", "settings.background_terminal_max_timeout"),
    no_effect("tool_suggest", "Codicil suggests no tools."),
    no_effect("js_repl_node_path", "There is no JavaScript tool."),
    no_effect("js_repl_node_module_dirs", "There is no JavaScript tool."),
    no_effect("zsh_path", "Commands run in the user's own shell."),
    no_effect("ghost_snapshot", "Codicil makes no snapshots of repositories."),
    read("suppress_unstable_features_warning", "settings.suppress_unstable_features_warning"),

    read("show_raw_agent_reasoning", "settings.show_raw_agent_reasoning"),
    read("hide_agent_reasoning", "settings.hide_agent_reasoning"),
    read("notify", "settings.notify"),
    no_effect("history", "Codicil writes no history file; a thread with `ephemeral` is not stored."),

    read("profile", "part.get(\"profile\")"),
    read("projects.*.trust_level", "trust_level"),

    read("forced_login_method", "settings.forced_login_method"),
    read("forced_chatgpt_workspace_id", "settings.forced_chatgpt_workspace_id"),
    read("chatgpt_base_url", "settings.chatgpt_base_url"),
    read("openai_base_url", "settings.openai_base_url"),
    read("cli_auth_credentials_store", "it.cli_auth_credentials_store"),
    read("mcp_oauth_credentials_store", "settings.mcp_oauth_credentials_store"),
    read("mcp_oauth_callback_port", "settings.mcp_oauth_callback_port"),
    read("mcp_oauth_callback_url", "settings.mcp_oauth_callback_url"),

    read("feedback.enabled", "settings.feedback_enabled()"),
    read("feedback.endpoint", "settings.feedback.endpoint"),
    always("analytics.enabled", false, "Codicil collects no analytics."),
    no_effect("analytics.*", "Codicil collects no analytics."),
    read("otel.environment", "otel.environment"),
    read("otel.span_attributes", "otel.span_attributes"),
    read("otel.exporter.otlp-http.endpoint", "http.endpoint"),
    read("otel.exporter.otlp-http.headers", "http.headers"),
    read("otel.exporter.otlp-http.protocol", "http.protocol"),
    no_effect("otel.exporter.otlp-http.tls", "The certificates of the operating system are trusted."),
    no_effect("otel.exporter.otlp-grpc", "Traces are exported over HTTP."),
    read("otel.trace_exporter.otlp-http.endpoint", "http.endpoint"),
    read("otel.trace_exporter.otlp-http.headers", "http.headers"),
    read("otel.trace_exporter.otlp-http.protocol", "http.protocol"),
    no_effect("otel.trace_exporter.otlp-http.tls", "The certificates of the operating system are trusted."),
    no_effect("otel.trace_exporter.otlp-grpc", "Traces are exported over HTTP."),
    no_effect("otel.metrics_exporter", "`app-server --metrics` serves metrics to Prometheus."),
    always("otel.log_user_prompt", false, "Traces contain no texts of users."),
    always("otel.log_agent_responses", false, "Traces contain no texts of models."),
    always("otel.log_guardian_assessments", false, "Traces contain no texts of models."),
    no_effect("otel.tool_result", "Traces contain no results of tools."),
    no_effect("otel.tracestate", "The `tracestate` of a client is passed on as it is."),
    no_effect("log_dir", "The log goes to standard error."),
    no_effect("sqlite_home", "The index of threads is in the home."),

    read("apps", "settings.apps"),
    no_effect("apps.*.approvals_reviewer", "Calls of apps are reviewed like other calls."),
    no_effect("apps.*.links", "All connections of an app have the settings of the app."),
    no_effect("apps.*.omit_tools_from", "Tools of apps are offered like those of MCP servers."),
    read("plugins.*.enabled", "settings.plugins"),
    read("marketplaces.*.source_type", "settings.source_type"),
    read("marketplaces.*.source", "settings.source"),
    read("marketplaces.*.ref", "settings.reference"),
    read("marketplaces.*.sparse_paths", "settings.sparse_paths"),
    no_effect("marketplaces.*.*", "Codicil copies a repository again when it is asked to."),
    read("skills.config.*.path", "entry.path"),
    read("skills.config.*.name", "entry.name"),
    read("skills.config.*.enabled", "entry.enabled"),
    read("skills.bundled.enabled", "bundled.enabled"),
    read("skills.include_instructions", "skills.include_instructions"),
    read("hooks", "value(&[\"hooks\"])"),
    no_effect("memories", "Codicil stores no memories across threads."),
    read("agents.max_threads", "number(\"max_threads\")"),
    read("agents.max_depth", "number(\"max_depth\")"),
    no_effect("agents.job_max_runtime_seconds", "There are no jobs over the rows of a table."),
    read("agents.*.description", "text(\"description\")"),
    read("agents.*.config_file", "text(\"config_file\")"),
    read("agents.*.nickname_candidates", "get(\"nickname_candidates\")"),

    read("realtime.version", "&[\"realtime\",\"version\"]"),
    no_effect("realtime.*", "Voice sessions have a version only; see `experimental_realtime_ws_model`."),
    read("experimental_realtime_ws_base_url", "\"experimental_realtime_ws_base_url\""),
    read("experimental_realtime_ws_model", "\"experimental_realtime_ws_model\""),
    read("experimental_realtime_ws_backend_prompt", "\"experimental_realtime_ws_backend_prompt\""),
    read("experimental_realtime_ws_startup_context", "\"experimental_realtime_ws_startup_context\""),
    no_effect("experimental_realtime_start_instructions", "A voice session adds nothing to the thread's own instructions."),

    of_clients("model_providers.*.name"),
    read("model_providers.*.base_url", "config.base_url"),
    read("model_providers.*.env_key", "config.env_key"),
    read("model_providers.*.env_key_instructions", "config.env_key_instructions"),
    read("model_providers.*.experimental_bearer_token", "config.experimental_bearer_token"),
    read("model_providers.*.wire_api", "config.wire_api"),
    read("model_providers.*.query_params", "config.query_params"),
    read("model_providers.*.http_headers", "config.http_headers"),
    read("model_providers.*.env_http_headers", "config.env_http_headers"),
    read("model_providers.*.request_max_retries", "self.request_max_retries"),
    read("model_providers.*.stream_max_retries", "self.stream_max_retries"),
    read("model_providers.*.stream_idle_timeout_ms", "self.stream_idle_timeout_ms"),
    read("model_providers.*.first_token_timeout_ms", "self.first_token_timeout_ms"),
    read("model_providers.*.connect_timeout_ms", "self.connect_timeout_ms"),
    read("model_providers.*.requires_openai_auth", "config.requires_openai_auth"),
    read("model_providers.*.script", "config.script"),
    always("model_providers.*.supports_websockets", false, "Responses are streamed over HTTP."),
    no_effect("model_providers.*.auth", "A provider's key comes from `env_key` or `experimental_bearer_token`."),
    no_effect("model_providers.*.websocket_connect_timeout_ms", "Responses are streamed over HTTP."),

    read("mcp_servers.*.command", "self.command"),
    read("mcp_servers.*.args", "self.args"),
    read("mcp_servers.*.env", "self.env,"),
    read("mcp_servers.*.env_vars", "self.env_vars"),
    read("mcp_servers.*.cwd", "self.cwd"),
    read("mcp_servers.*.url", "self.url"),
    read("mcp_servers.*.bearer_token_env_var", "self.bearer_token_env_var"),
    read("mcp_servers.*.http_headers", "self.http_headers"),
    read("mcp_servers.*.env_http_headers", "self.env_http_headers"),
    read("mcp_servers.*.enabled", "written.enabled"),
    read("mcp_servers.*.required", "written.required"),
    read("mcp_servers.*.startup_timeout_sec", "written.startup_timeout_sec"),
    read("mcp_servers.*.startup_timeout_ms", "written.startup_timeout_ms"),
    read("mcp_servers.*.tool_timeout_sec", "written.tool_timeout_sec"),
    read("mcp_servers.*.enabled_tools", "written.enabled_tools"),
    read("mcp_servers.*.disabled_tools", "written.disabled_tools"),
    read("mcp_servers.*.scopes", "written.scopes"),
    read("mcp_servers.*.oauth_resource", "self.oauth_resource"),
    read("mcp_servers.*.oauth.client_id", "self.client_id?"),
    read("mcp_servers.*.oauth.client_secret_env_var", "self.client_secret_env_var"),
    read("mcp_servers.*.tools.*.approval_mode", "tool.approval_mode"),

    read("codicil.deadlines.connect", "deadlines.connect"),
    read("codicil.deadlines.first_token", "deadlines.first_token"),
    read("codicil.deadlines.between_tokens", "deadlines.between_tokens"),
    read("codicil.deadlines.tool", "deadlines.tool"),
    read("codicil.deadlines.idle_thread", "deadlines.idle_thread"),
    read("codicil.protocol", "codicil.protocol"),
    read("codicil.cut_off_turns", "codicil.cut_off_turns"),
    read("codicil.approvals.deadline_ms", "approvals.deadline_ms"),
    read("codicil.approvals.default", "approvals.default"),
    read("codicil.login.issuer", "login.issuer"),
    read("codicil.login.client_id", "login.client_id"),
    read("codicil.login.callback_port", "login.callback_port"),
    read("codicil.store.url", "store.url"),
    read("codicil.store.node", "store.node"),
    read("codicil.store.advertise", "store.advertise"),
    read("codicil.store.places.*", "store.places"),

    of_clients("audio"),
    of_clients("check_for_update_on_startup"),
    of_clients("disable_paste_burst"),
    of_clients("file_opener"),
    of_clients("notice"),
    of_clients("tui"),
    of_clients("windows_wsl_setup_acknowledged"),
    no_effect("windows", "There is no sandbox for Windows."),
    always("cloud.skills.enabled", false, "Skills come from this machine."),
];

/// Feature flags that nothing reads, with the value that describes what happens anyway. Removed flags are not listed: they
/// stay at their default.
#[rustfmt::skip]
const UNREAD_FEATURES: &[(Feature, bool, &str)] = &[
    (Feature::ShellSnapshot, false, "Every command starts a shell that reads the profile itself."),
    (Feature::AgentFanout, false, "There are no jobs over the rows of a table."),
    (Feature::Memories, false, "Codicil stores no memories across threads."),
    (Feature::ToolSuggest, false, "Codicil suggests no tools."),
    (Feature::ContextManagement, false, "A long history is compacted, and otherwise left as it is."),
    (Feature::CurrentTimeReminder, false, "The model is not reminded of the time."),
    (Feature::DeferredExecutor, false, "Commands run on the machine of the server."),
    (Feature::StandaloneWebSearch, false, "The provider of the model searches the web."),
    (Feature::TokenBudget, false, "The model is not informed of its token budget."),
];

/// Returns the effect of a key: that of its own entry, else of the table around it.
pub fn key_effect<K: AsRef<str>>(keys: &[K]) -> Option<KeyEffect> {
    (1..=keys.len()).rev().find_map(|length| own_effect(keys.get(..length)?))
}

/// Returns the effect of the key's own entry. A name comes before a wildcard: `agents.max_threads` is no role.
fn own_effect<K: AsRef<str>>(keys: &[K]) -> Option<KeyEffect> {
    let entries = || CATALOGUE.iter().filter(|entry| matches_pattern(entry.key, keys));
    let named = entries().find(|entry| !entry.key.ends_with('*'));
    named.or_else(|| entries().next()).map(|entry| entry.effect)
}

fn matches_pattern<K: AsRef<str>>(pattern: &str, keys: &[K]) -> bool {
    pattern.split('.').count() == keys.len() && begins_pattern(pattern, keys)
}

/// Returns whether the keys are the first ones of a pattern.
fn begins_pattern<K: AsRef<str>>(pattern: &str, keys: &[K]) -> bool {
    let mut parts = pattern.split('.');
    keys.iter().all(|key| parts.next().is_some_and(|part| part == "*" || part == key.as_ref()))
}

/// Returns the keys that are not in the catalogue, and the flags that are no features.
pub(crate) fn unknown_keys(table: &Table) -> Vec<KeyPath> {
    let mut unknown = Vec::new();
    collect_unknown(table, &mut Vec::new(), &mut unknown);
    unknown.sort();
    unknown
}

fn collect_unknown(table: &Table, path: &mut Vec<String>, unknown: &mut Vec<KeyPath>) {
    for (key, value) in table {
        path.push(key.clone());
        if !is_known(path, value, unknown) {
            unknown.extend(KeyPath::from_keys(path.clone()));
        }
        path.pop();
    }
}

/// Returns whether a key is known. Adds unknown keys below it.
fn is_known(path: &mut Vec<String>, value: &Value, unknown: &mut Vec<KeyPath>) -> bool {
    // A profile contains the keys of the root.
    let below_profile = match path.as_slice() {
        [profiles] | [profiles, _] if profiles == "profiles" => &[][..],
        [profiles, _, keys @ ..] if profiles == "profiles" => keys,
        keys => keys,
    };
    match below_profile {
        [features, name, ..] if features == "features" => return Feature::named(name).is_some(),
        keys if key_effect(keys).is_some() => return true,
        keys if keys.first().is_some_and(|key| key == "features") => {}
        keys if !CATALOGUE.iter().any(|entry| begins_pattern(entry.key, keys)) => return false,
        _ => {}
    }
    match value {
        Value::Table(below) => collect_unknown(below, path, unknown),
        Value::Array(items) => {
            let tables = items.iter().enumerate();
            for (index, below) in tables.filter_map(|(index, item)| Some((index, item.as_table()?))) {
                path.push(index.to_string());
                collect_unknown(below, path, unknown);
                path.pop();
            }
        }
        // The type is wrong, which the ordinary check reports.
        _ => {}
    }
    true
}

/// A feature flag that nothing reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadFeature {
    /// The value that describes what happens anyway.
    pub value: bool,
    pub reason: &'static str,
}

impl UnreadFeature {
    /// Returns `None` for a feature that is read, and for a deprecated one, which has a `deprecationNotice` instead.
    pub fn of(feature: Feature) -> Option<Self> {
        let removed = || {
            let reason = "The flag was removed, and nothing depends on it any more.";
            let is_removed = feature.stage() == FeatureStage::Removed;
            is_removed.then(|| Self { value: feature.default_enabled(), reason })
        };
        let listed = UNREAD_FEATURES.iter().find(|(unread, ..)| *unread == feature);
        listed.map(|&(_, value, reason)| Self { value, reason }).or_else(removed)
    }
}

/// Returns a warning for each key and feature flag without effect that is set, and one for the unknown keys of each layer.
pub(crate) fn warnings(
    table: &Table,
    layers: &LayerStack,
    requirements: &Requirements,
) -> Vec<ConfigWarningNotification> {
    let mut unused = Vec::new();
    collect_unused(table, &mut Vec::new(), &mut unused);
    unused.extend(FEATURES.iter().filter_map(|spec| {
        let UnreadFeature { value, reason } = UnreadFeature::of(spec.feature)?;
        let configured = || value_at(table, &["features", spec.name]).and_then(flag_value);
        let set = requirements.pinned_feature(spec.feature).or_else(configured)?;
        (set != value).then(|| (format!("features.{}", spec.name), reason))
    }));
    let unused = unused.into_iter().map(|(key, reason)| {
        let summary = format!("The setting `{key}` has no effect.");
        located_warning(summary, reason.to_owned(), layers, key)
    });
    let unknown = layers.enabled().filter_map(|layer| unknown_warning(&layer.unknown_keys(), layers));
    unused.chain(unknown).collect()
}

/// Collects the keys without effect that are set, and the reasons. A table without effect is one key.
fn collect_unused(table: &Table, path: &mut Vec<String>, unused: &mut Vec<(String, &'static str)>) {
    for (key, value) in table {
        path.push(key.clone());
        match (own_effect(path), value) {
            (Some(KeyEffect::None { except, reason }), _)
                if except.is_none() || value.as_bool() != except =>
            {
                unused.push((path.join("."), reason));
            }
            // Members of a table that is read can have entries of their own.
            (None | Some(KeyEffect::Read(_)), Value::Table(below)) => collect_unused(below, path, unused),
            _ => {}
        }
        path.pop();
    }
}

/// Returns the value of a flag, which is a boolean or a table with the member `enabled`.
fn flag_value(value: &Value) -> Option<bool> {
    value.as_bool().or_else(|| value.get("enabled").and_then(Value::as_bool))
}

/// The maximum number of unknown keys in a warning.
const MAX_NAMED: usize = 20;

fn unknown_warning(unknown: &[KeyPath], layers: &LayerStack) -> Option<ConfigWarningNotification> {
    let first = unknown.first()?.to_string();
    let mut names: Vec<_> = unknown.iter().take(MAX_NAMED).map(|key| format!("`{key}`")).collect();
    if unknown.len() > MAX_NAMED {
        names.push(format!("and {} more", unknown.len() - MAX_NAMED));
    }
    let summary = "Unknown settings have no effect.".to_owned();
    Some(located_warning(summary, names.join(", "), layers, first))
}

fn located_warning(
    summary: String,
    details: String,
    layers: &LayerStack,
    key: String,
) -> ConfigWarningNotification {
    let location = match layers.locate_problem(ConfigProblem::new(key, "")) {
        ConfigError::InFile(location) => Some(location),
        _ => None,
    };
    ConfigWarningNotification {
        summary,
        details: Some(details),
        path: location.as_ref().map(|location| location.path.display().to_string()),
        range: location.map(|location| location.range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_unknown(text: &str, expected: &[&str]) {
        let found: Vec<_> = unknown_keys(&text.parse().unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn keys_that_are_not_in_the_catalogue_are_unknown() {
        check_unknown("model = 'x'\ntui.theme = 'dark'\nfeatures.apps = true", &[]);
        check_unknown("modle = 'x'\nfeatures.anything = true", &["features.anything", "modle"]);
        check_unknown(
            "[sandbox_workspace_write]\nnetwrok_access = true",
            &["sandbox_workspace_write.netwrok_access"],
        );
        check_unknown("[codicil.deadlines]\ntools = 1", &["codicil.deadlines.tools"]);
        check_unknown("[profiles.work]\nmodel = 'x'\nfeatures.apps = true\nwindows.sandbox = 'x'", &[]);
        check_unknown(
            "[profiles.work]\nmodle = 'x'\nfeatures.a = true",
            &["profiles.work.features.a", "profiles.work.modle"],
        );
        check_unknown("[mcp_servers.a]\ncommand = 'x'\narg = []", &["mcp_servers.a.arg"]);
        check_unknown("[model_providers.a]\nbase_url = 'x'\nown = 1", &["model_providers.a.own"]);
        check_unknown("[[skills.config]]\nname = 'x'\nenabled = true\noff = 1", &["skills.config.0.off"]);
        check_unknown(
            "[tools.web_search]\ncontext_size = 'low'\n[shell_environment_policy]\nset = { A = 'b' }",
            &[],
        );
        check_unknown("projects.'/x.y'.trust_level = 'trusted'", &[]);
        check_unknown("[agents]\nmax_threads = 1\nreviewer.description = 'x'", &[]);
        check_unknown("[agents.reviewer]\nnicknames = []", &["agents.reviewer.nicknames"]);
        check_unknown(
            "approval_policy = { granular = { mcp_elicitations = true, rules = true, sandbox_approval = true } }",
            &[],
        );
    }

    #[test]
    fn a_name_comes_before_a_wildcard() {
        assert!(matches!(key_effect(&["agents", "max_threads"]), Some(KeyEffect::Read(_))));
        assert!(matches!(
            key_effect(&["analytics", "enabled"]),
            Some(KeyEffect::None { except: Some(_), .. })
        ));
        assert!(matches!(key_effect(&["analytics", "other"]), Some(KeyEffect::None { except: None, .. })));
        assert!(matches!(key_effect(&["otel", "tool_result", "max_bytes"]), Some(KeyEffect::None { .. })));
        assert_eq!(key_effect(&["agents"]), None);
    }
}
