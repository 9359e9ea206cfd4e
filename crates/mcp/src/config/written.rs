//! The form in which users write the tables, and its conversion.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use toml::{Table, Value};
use url::Url;

use super::{
    ApprovalMode, HttpConfig, OauthClientConfig, ServerConfig, ServerConfigError, ServerTransport,
    StdioConfig,
};
use crate::limits::{STARTUP_TIMEOUT, TOOL_TIMEOUT};

/// Reads a server from its table.
pub(super) fn read(table: &Table) -> Result<ServerConfig, ServerConfigError> {
    let written: WrittenServer =
        Value::Table(table.clone()).try_into().map_err(|error| invalid_table(&error))?;
    let startup_timeout = match (written.startup_timeout_sec, written.startup_timeout_ms) {
        (Some(seconds), _) => duration("startup_timeout_sec", seconds)?,
        (None, Some(milliseconds)) => Duration::from_millis(milliseconds),
        (None, None) => STARTUP_TIMEOUT,
    };
    let tool_timeout = match written.tool_timeout_sec {
        Some(seconds) => duration("tool_timeout_sec", seconds)?,
        None => TOOL_TIMEOUT,
    };
    Ok(ServerConfig {
        enabled: written.enabled.unwrap_or(true),
        required: written.required.unwrap_or(false),
        startup_timeout,
        tool_timeout,
        enabled_tools: written.enabled_tools.clone(),
        disabled_tools: written.disabled_tools.clone(),
        scopes: written.scopes.clone(),
        approval_modes: written.tools.iter().map(|(name, tool)| (name.clone(), tool.approval_mode)).collect(),
        transport: written.transport()?,
    })
}

/// A table as written.
#[derive(Deserialize)]
struct WrittenServer {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    env_vars: Vec<WrittenVariable>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    bearer_token_env_var: Option<String>,
    #[serde(default)]
    http_headers: BTreeMap<String, String>,
    #[serde(default)]
    env_http_headers: BTreeMap<String, String>,
    enabled: Option<bool>,
    required: Option<bool>,
    startup_timeout_sec: Option<f64>,
    startup_timeout_ms: Option<u64>,
    tool_timeout_sec: Option<f64>,
    enabled_tools: Option<BTreeSet<String>>,
    #[serde(default)]
    disabled_tools: BTreeSet<String>,
    scopes: Option<Vec<String>>,
    oauth_resource: Option<String>,
    oauth: Option<WrittenOauth>,
    #[serde(default)]
    tools: BTreeMap<String, WrittenTool>,
}

#[derive(Deserialize)]
struct WrittenOauth {
    client_id: Option<String>,
    client_secret_env_var: Option<String>,
}

#[derive(Deserialize)]
struct WrittenTool {
    #[serde(default)]
    approval_mode: ApprovalMode,
}

/// A variable name, or a table with a name.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenVariable {
    Name(String),
    Table { name: String },
}

impl WrittenServer {
    fn transport(self) -> Result<ServerTransport, ServerConfigError> {
        match (self.command, self.url) {
            (Some(command), None) => Ok(ServerTransport::Stdio(StdioConfig {
                command,
                args: self.args,
                env: self.env,
                env_vars: self
                    .env_vars
                    .into_iter()
                    .map(|variable| match variable {
                        WrittenVariable::Name(name) | WrittenVariable::Table { name } => name,
                    })
                    .collect(),
                cwd: self.cwd,
            })),
            (None, Some(url)) => {
                check_url(&url)?;
                check_headers(&self.http_headers, "http_headers")?;
                check_header_names(self.env_http_headers.keys(), "env_http_headers")?;
                Ok(ServerTransport::Http(HttpConfig {
                    url,
                    bearer_token_env_var: self.bearer_token_env_var,
                    headers: self.http_headers,
                    env_headers: self.env_http_headers,
                    oauth_resource: self.oauth_resource,
                    oauth_client: self.oauth.and_then(WrittenOauth::client),
                }))
            }
            _ => Err(ServerConfigError::new("", "invalid transport")),
        }
    }
}

impl WrittenOauth {
    fn client(self) -> Option<OauthClientConfig> {
        Some(OauthClientConfig { id: self.client_id?, secret_env_var: self.client_secret_env_var })
    }
}

/// Converts a parser error without the value that it may quote, since values can be secret.
fn invalid_table(error: &toml::de::Error) -> ServerConfigError {
    let whole = error.to_string();
    let key = whole.split("in `").nth(1).and_then(|rest| rest.split('`').next()).unwrap_or_default();
    let reason = error.message();
    let is_secret = ["env", "http_headers", "args", "url"].iter().any(|name| key.starts_with(name));
    ServerConfigError::new(key, if is_secret { "not of the right type" } else { reason })
}

fn duration(key: &str, seconds: f64) -> Result<Duration, ServerConfigError> {
    Duration::try_from_secs_f64(seconds).map_err(|_| ServerConfigError::new(key, "not a number of seconds"))
}

fn check_url(url: &str) -> Result<(), ServerConfigError> {
    let is_valid =
        Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if is_valid { Ok(()) } else { Err(ServerConfigError::new("url", "not an http or https address")) }
}

fn check_headers(headers: &BTreeMap<String, String>, key: &str) -> Result<(), ServerConfigError> {
    check_header_names(headers.keys(), key)?;
    match headers.iter().find(|(_, value)| HeaderValue::from_str(value).is_err()) {
        Some((name, _)) => Err(ServerConfigError::new(&format!("{key}.{name}"), "not a header value")),
        None => Ok(()),
    }
}

fn check_header_names<'a>(
    mut names: impl Iterator<Item = &'a String>,
    key: &str,
) -> Result<(), ServerConfigError> {
    match names.find(|name| HeaderName::from_bytes(name.as_bytes()).is_err()) {
        Some(name) => Err(ServerConfigError::new(&format!("{key}.{name}"), "not a header name")),
        None => Ok(()),
    }
}
