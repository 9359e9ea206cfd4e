//! The state of the server: account and limits, models, MCP servers, skills, plugins, sandbox, configuration and usage.
//!
//! Every section is asked for on its own, at the same time. One that fails says why, and the others are shown.

use std::{collections::BTreeMap, time::Duration};

use axum::{Extension, extract::State};
use codicil_client::{
    ClientError, command,
    protocol::{
        Account, AccountRateLimitsRead, AccountRead, CodicilSandboxRead, CodicilSandboxReadParams,
        CodicilSandboxReadResponse, CommandExec, CommandExecParams, ConfigLayerMetadata, ConfigLayerSource,
        ConfigRead, ConfigReadParams, ConfigReadResponse, GetAccountParams, GetAccountRateLimitsParams,
        GetAccountResponse, ListMcpServerStatusParams, ListMcpServerStatusResponse, McpAuthStatus,
        McpServerStatusList, Method, Model, ModelList, ModelListParams, PluginList, PluginListParams,
        PluginListResponse, RateLimitSnapshot, RateLimitWindow, ReadOnlyAccess, SandboxPolicy, SkillsList,
        SkillsListParams, SkillsListResponse,
    },
};
use maud::{Markup, html};
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::{PageFrame, format, page, usage};
use crate::{
    access::Session,
    render::text::{visible, visible_plain},
    state::Console,
};

/// A section that takes longer is left out: an MCP server may not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys whose values are not shown, because they hold secrets.
const SECRET_KEYS: [&str; 11] = [
    "token",
    "secret",
    "password",
    "api_key",
    "authorization",
    "headers",
    "env",
    "credential",
    "query_params",
    "args",
    "private_key",
];

const HIDDEN: &str = "(hidden)";

/// Tries to write where every process may write that is not confined.
const PROBE_SCRIPT: &str = "if (: > \"/tmp/.codicil-probe-$$\") 2>/dev/null; then rm -f \"/tmp/.codicil-probe-$$\"; echo written; \
     else echo refused; fi";

/// `GET /status`
pub async fn status(State(console): State<Console>, Extension(session): Extension<Session>) -> Markup {
    let client = &console.client;
    let (account, limits, models, servers, skills, plugins, sandbox, attempt, config, used) = tokio::join!(
        ask::<AccountRead>(&console, GetAccountParams::default()),
        ask::<AccountRateLimitsRead>(&console, GetAccountRateLimitsParams::default()),
        ask::<ModelList>(&console, ModelListParams::default()),
        ask::<McpServerStatusList>(&console, ListMcpServerStatusParams::default()),
        ask::<SkillsList>(&console, SkillsListParams::default()),
        ask::<PluginList>(&console, PluginListParams::default()),
        ask::<CodicilSandboxRead>(&console, CodicilSandboxReadParams {}),
        ask::<CommandExec>(&console, probe()),
        ask::<ConfigRead>(&console, ConfigReadParams::default()),
        timeout(PATIENCE, usage::recent(client)),
    );
    let used = used
        .map_err(|_| "no answer in time".to_owned())
        .and_then(|used| used.map_err(|error| error.to_string()));
    page(
        &console,
        &session,
        &PageFrame::new("Status", "status"),
        html! {
            main #main .status aria-label="Status" {
                header.page-head { h1 { "Status" } }
                (section("Account", account, account_part))
                (section("Rate limits", limits, |limits| rate_limits(&limits.rate_limits)))
                (section("Usage", used, |used| usage::charts(&used)))
                (section("Models", models, |models| model_table(&models.data)))
                (section("MCP servers", servers, |servers| mcp_servers(&console, servers)))
                (section("Skills", skills, skill_table))
                (section("Plugins", plugins, plugin_table))
                (section("Sandbox", sandbox, |found| sandbox_part(&found, attempt.map(|attempt| attempt.stdout))))
                (section("Configuration", config, configuration))
            }
        },
    )
}

/// Calls a method. Returns its error as a sentence.
async fn ask<M: Method>(console: &Console, params: M::Params) -> Result<M::Response, String> {
    match timeout(PATIENCE, console.client.call::<M>(params)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ClientError::ResponseError { error, .. })) => Err(error.message),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

fn section<T>(title: &str, answer: Result<T, String>, show: impl FnOnce(T) -> Markup) -> Markup {
    html! {
        section.sheet aria-label=(title) {
            h2 { (title) }
            @match answer {
                Ok(answer) => (show(answer)),
                Err(error) => p.meta { "Not available: " (visible(&error)) },
            }
        }
    }
}

fn account_part(answer: GetAccountResponse) -> Markup {
    html! {
        @match &answer.account {
            Some(Account::Chatgpt { email, plan_type, .. }) => {
                p { "Signed in as " strong { (visible(email)) } ", plan " (visible(&wire_name(plan_type))) "." }
            }
            Some(Account::ApiKey) => p { "Signed in with an API key." },
            Some(_) => p { "Signed in." },
            None if answer.requires_openai_auth => p { "Signed out. The model provider needs an account: " code { "codicil login" } "." },
            None => p { "The model provider needs no account." },
        }
    }
}

fn rate_limits(limits: &RateLimitSnapshot) -> Markup {
    let windows: Vec<_> = [("Short window", &limits.primary), ("Long window", &limits.secondary)]
        .into_iter()
        .filter_map(|(name, window)| window.as_ref().map(|window| (name, window)))
        .collect();
    html! {
        @if windows.is_empty() { p { "No limits are known." } }
        @for (name, window) in windows { (limit_window(name, window)) }
        @if let Some(credits) = limits.credits.as_ref().and_then(|credits| credits.balance.as_ref()) {
            p { "Credits: " (visible(credits)) }
        }
    }
}

fn limit_window(name: &str, window: &RateLimitWindow) -> Markup {
    html! {
        p {
            (name)
            @if let Some(minutes) = window.window_duration_mins { " (" (minutes) " min)" }
            ": "
            meter aria-label=(name) min="0" max="100" high="80" value=(window.used_percent) { (window.used_percent) " %" }
            " " (window.used_percent) " % used"
            @if let Some(resets) = window.resets_at { ", resets " time datetime=(format::timestamp(resets)) { (format::timestamp(resets)) } }
        }
    }
}

fn model_table(models: &[Model]) -> Markup {
    html! {
        @if models.is_empty() { p { "The provider lists no models." } }
        @else {
            table aria-label="Models" {
                thead { tr { th scope="col" { "Model" } th scope="col" { "Name" } th scope="col" { "Efforts" } th scope="col" { "Default" } } }
                tbody {
                    @for model in models.iter().filter(|model| !model.hidden) {
                        tr {
                            th scope="row" { (visible(&model.model)) }
                            td { (visible(&model.display_name)) }
                            td {
                                @for (index, option) in model.supported_reasoning_efforts.iter().enumerate() {
                                    @if index > 0 { ", " }
                                    (visible(&wire_name(&option.reasoning_effort)))
                                }
                            }
                            td { @if model.is_default { "yes" } }
                        }
                    }
                }
            }
        }
    }
}

fn mcp_servers(console: &Console, answer: ListMcpServerStatusResponse) -> Markup {
    html! {
        @if answer.data.is_empty() { p { "No MCP servers are configured." } }
        @for server in &answer.data {
            @let error = console.overview.mcp_error(&server.name);
            details open[error.is_some()] {
                summary {
                    (visible(&server.name)) " "
                    @if error.is_some() { span.chip.failed { "Failed" } } @else { span.chip { (server.tools.len()) " tools" } }
                    " " (sign_in_state(&server.auth_status))
                }
                @match error {
                    Some(error) => p.error { (visible(&error)) },
                    None if server.tools.is_empty() => p.meta { "Disabled, not reachable, or without tools." },
                    None => {}
                }
                dl {
                    @for (name, tool) in &server.tools {
                        dt { code { (visible(name)) } }
                        dd { (visible(tool.description.as_deref().unwrap_or_default())) }
                    }
                }
            }
        }
    }
}

fn sign_in_state(status: &McpAuthStatus) -> Markup {
    html! {
        @match status {
            McpAuthStatus::NotLoggedIn => span.chip.failed { "Signed out" },
            McpAuthStatus::OAuth | McpAuthStatus::BearerToken => span.chip.ok { "Signed in" },
            _ => {}
        }
    }
}

fn skill_table(answer: SkillsListResponse) -> Markup {
    let skills: Vec<_> = answer.data.iter().flat_map(|entry| &entry.skills).collect();
    let errors: Vec<_> = answer.data.iter().flat_map(|entry| &entry.errors).collect();
    html! {
        @if skills.is_empty() { p { "No skills are installed." } }
        dl {
            @for skill in skills {
                dt { code { (visible(&skill.name)) } @if !skill.enabled { " " span.chip { "Off" } } }
                dd { (visible(&skill.description)) }
            }
        }
        @for error in errors { p.error { (visible(&error.path)) ": " (visible(&error.message)) } }
    }
}

fn plugin_table(answer: PluginListResponse) -> Markup {
    let plugins: Vec<_> = answer.marketplaces.iter().flat_map(|place| &place.plugins).collect();
    let installed: Vec<_> = plugins.iter().filter(|plugin| plugin.installed).collect();
    html! {
        p { (installed.len()) " of " (plugins.len()) " plugins are installed." }
        ul {
            @for plugin in installed {
                li { code { (visible(&plugin.id)) } @if !plugin.enabled { " " span.chip { "Off" } } }
            }
        }
        @for error in &answer.marketplace_load_errors { p.error { (visible(&error.message)) } }
    }
}

/// Returns a command that shows whether the sandbox works, with a read-only policy.
fn probe() -> CommandExecParams {
    CommandExecParams {
        sandbox_policy: Some(SandboxPolicy::ReadOnly {
            access: ReadOnlyAccess::default(),
            network_access: false,
        }),
        timeout_ms: Some(5_000),
        ..command(["sh", "-c", PROBE_SCRIPT])
    }
}

/// Returns what `codicil doctor` says of the sandbox, and what has become of a command that tried to write.
fn sandbox_part(found: &CodicilSandboxReadResponse, attempt: Result<String, String>) -> Markup {
    html! {
        p {
            @if found.is_available { span.chip.ok { "Available" } } @else { span.chip.failed { "Not available" } }
            " " (visible(&found.summary))
        }
        @match attempt.as_deref().map(str::trim) {
            Ok("refused") => p { span.chip.ok { "Works" } " A confined command could not write to " code { "/tmp" } "." },
            Ok(_) => p { span.chip.failed { "Does not confine" } " A command with a read-only policy could write." },
            Err(error) => p.meta { "A confined command could not be tried: " (visible(error)) },
        }
        @if !found.details.is_empty() {
            ul aria-label="Means of confinement" { @for detail in &found.details { li { (visible(detail)) } } }
        }
    }
}

fn configuration(answer: ConfigReadResponse) -> Markup {
    let config = serde_json::to_value(&answer.config).unwrap_or_default();
    let mut rows = Vec::new();
    flatten("", &config, &mut rows);
    html! {
        @if rows.is_empty() { p { "Everything has its default." } }
        @else {
            table aria-label="Configuration" {
                thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "From" } } }
                tbody {
                    @for (key, value) in &rows {
                        tr {
                            th scope="row" { code { (visible(key)) } }
                            td { code { (visible(value)) } }
                            td { (origin(&answer.origins, key)) }
                        }
                    }
                }
            }
        }
    }
}

/// Collects the values that are set, by dotted path. Values of secret keys are not shown.
fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if is_secret(name) && !value.is_null() {
                    rows.push((path, HIDDEN.to_owned()));
                } else {
                    flatten(&path, value, rows);
                }
            }
        }
        Value::String(text) => rows.push((path.to_owned(), without_secrets(text))),
        other => rows.push((path.to_owned(), redacted(other).to_string())),
    }
}

/// Returns a value within a list, without its secrets.
fn redacted(value: &Value) -> Value {
    let member = |(name, value): (&String, &Value)| {
        let value = if is_secret(name) && !value.is_null() { HIDDEN.into() } else { redacted(value) };
        (name.clone(), value)
    };
    match value {
        Value::Object(members) => Value::Object(members.iter().map(member).collect()),
        Value::Array(values) => values.iter().map(redacted).collect(),
        Value::String(text) => without_secrets(text).into(),
        other => other.clone(),
    }
}

/// Returns a text; of an address neither the password nor the values of the query.
fn without_secrets(text: &str) -> String {
    let Ok(mut address) = Url::parse(text) else { return text.to_owned() };
    let has_user = !address.username().is_empty() || address.password().is_some();
    if !has_user && address.query().is_none() {
        return text.to_owned();
    }
    let names: Vec<String> = address.query_pairs().map(|(name, _)| name.into_owned()).collect();
    if has_user {
        // Fails for addresses that cannot have a user, which then have none.
        let _ = address.set_username("hidden");
        let _ = address.set_password(None);
    }
    if !names.is_empty() {
        address.query_pairs_mut().clear().extend_pairs(names.iter().map(|name| (name, "hidden")));
    }
    address.into()
}

/// Names of variables that hold a secret, such as `bearer_token_env_var`, are not secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_count = name.ends_with("tokens")
        || name.ends_with("limit")
        || name.ends_with("env_var")
        || name.ends_with("env_key");
    !is_count
        && SECRET_KEYS.iter().any(|secret| {
            name == *secret || name.ends_with(&format!("_{secret}")) || name.ends_with(&format!("-{secret}"))
        })
}

/// Returns the layer that a value comes from: its own, or that of the nearest table above it.
fn origin(origins: &BTreeMap<String, ConfigLayerMetadata>, key: &str) -> Markup {
    let mut path = key;
    let found = loop {
        if let Some(found) = origins.get(path) {
            break Some(found);
        }
        match path.rsplit_once('.') {
            Some((above, _)) => path = above,
            None => break None,
        }
    };
    html! {
        @match found.map(|found| &found.name) {
            Some(ConfigLayerSource::User { file, .. } | ConfigLayerSource::System { file }) => (short_name(&wire_name(file))),
            Some(ConfigLayerSource::Project { dot_codex_folder }) => (short_name(&wire_name(dot_codex_folder))),
            Some(ConfigLayerSource::SessionFlags) => "command line",
            Some(_) => "administrator",
            None => "default",
        }
    }
}

/// Returns the last parts of a path, and the whole path as a tooltip.
fn short_name(path: &str) -> Markup {
    html! { span title=(visible_plain(path)) { (visible(format::short_path(path))) } }
}

/// Returns a value as it is on the wire.
fn wire_name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_of_the_configuration_are_hidden() {
        let config = json!({
            "model": "m",
            "review_model": null,
            "max_output_tokens": 5,
            "mcp_servers": { "a": { "args": ["--key", "s3cret"], "url": "https://h/mcp", "env": { "KEY": "s3cret" }, "bearer_token_env_var": "NAME", "http_headers": { "x": "s3cret" } } },
            "mcp_servers_list": [{ "url": "https://u:s3cret@h/x?key=s3cret", "env": "s3cret" }],
            "model_providers": { "p": { "base_url": "https://h/v1?api=s3cret", "query_params": { "a": "s3cret" }, "experimental_bearer_token": "s3cret", "env_key": "NAME" } },
        });
        let mut rows = Vec::new();
        flatten("", &config, &mut rows);
        let shown: Vec<_> = rows.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            shown,
            [
                "max_output_tokens=5",
                "mcp_servers.a.args=(hidden)",
                "mcp_servers.a.bearer_token_env_var=NAME",
                "mcp_servers.a.env=(hidden)",
                "mcp_servers.a.http_headers=(hidden)",
                "mcp_servers.a.url=https://h/mcp",
                "mcp_servers_list=[{\"env\":\"(hidden)\",\"url\":\"https://hidden@h/x?key=hidden\"}]",
                "model=m",
                "model_providers.p.base_url=https://h/v1?api=hidden",
                "model_providers.p.env_key=NAME",
                "model_providers.p.experimental_bearer_token=(hidden)",
                "model_providers.p.query_params=(hidden)",
            ]
        );
    }
}
