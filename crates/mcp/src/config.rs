//! The `[mcp_servers.NAME]` tables as types. The `config` crate merges the layers and checks their shapes; here the
//! values are interpreted. Unknown keys are ignored.

mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use codicil_config::{CredentialsStore, EffectiveConfig};
use codicil_protocol::{Secret, Tool};
use serde::Deserialize;
use thiserror::Error;
use toml::Table;

use crate::apps::AppServerConfig;

/// The servers of a configuration by name, and their common settings.
#[derive(Clone, Debug, Default)]
pub struct ServerTable {
    servers: BTreeMap<String, Arc<ServerConfig>>,
    pub oauth: OauthSettings,
}

/// The OAuth settings of all servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OauthSettings {
    /// Port of the local callback address; `None` chooses a free one.
    pub callback_port: Option<u16>,
    /// Redirect URI to use instead of the local address, for setups with a forwarder in between.
    pub callback_url: Option<String>,
    /// Where credentials are stored; `None` means the file.
    pub store: Option<CredentialsStore>,
}

/// The configuration of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    pub enabled: bool,
    /// Whether a thread fails to start without the server.
    pub required: bool,
    pub transport: ServerTransport,
    pub startup_timeout: Duration,
    pub tool_timeout: Duration,
    /// If set, only these tools are offered.
    pub enabled_tools: Option<BTreeSet<String>>,
    pub disabled_tools: BTreeSet<String>,
    /// OAuth scopes to request.
    pub scopes: Option<Vec<String>>,
    /// By tool; see [`ApprovalMode`].
    pub approval_modes: BTreeMap<String, ApprovalMode>,
    /// Set for the server of the account's apps.
    pub apps: Option<AppServerConfig>,
}

/// The transport of a server. Threads share a connection if the transport and the name are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerTransport {
    Stdio(StdioConfig),
    Http(HttpConfig),
}

/// A server process that communicates over its standard streams.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StdioConfig {
    pub command: String,
    pub args: Vec<String>,
    /// Variables set for the process.
    pub env: BTreeMap<String, String>,
    /// Names of variables that the process inherits in addition to the default ones.
    pub env_vars: Vec<String>,
    pub cwd: Option<PathBuf>,
}

/// Omits arguments and values, which may be secret.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("env_vars", &self.env_vars)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// A server at a URL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpConfig {
    pub url: String,
    /// Environment variable that holds the bearer token.
    pub bearer_token_env_var: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// Header names and the variables that hold their values.
    pub env_headers: BTreeMap<String, String>,
    /// Resource for which tokens are requested, if it is not the URL.
    pub oauth_resource: Option<String>,
    /// Client that is registered with the authorization server; without it each login registers one.
    pub oauth_client: Option<OauthClientConfig>,
}

/// `[mcp_servers.NAME.oauth]`: a client that is registered with the authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OauthClientConfig {
    /// The id, or the URL of the client's metadata document.
    pub id: String,
    /// Environment variable that holds the client's secret.
    pub secret_env_var: Option<String>,
}

/// Omits header values and the URL, which may be secret.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig")
            .field("bearer_token_env_var", &self.bearer_token_env_var)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("env_headers", &self.env_headers)
            .finish_non_exhaustive()
    }
}

/// Whether calls of a tool need an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// Decided by the tool's annotations and the thread's approval policy.
    #[default]
    Auto,
    /// Always.
    Prompt,
    /// Never: the user has allowed the tool permanently.
    Approve,
}

/// An invalid value in a table, with its key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}\nin `{key}`")]
pub struct ServerConfigError {
    pub key: String,
    pub reason: String,
}

impl ServerTable {
    /// Reads the servers of a thread's configuration.
    pub fn read(config: &EffectiveConfig) -> Result<ServerTable, ServerConfigError> {
        let mut table = ServerTable::of(config.mcp_servers())?;
        table.oauth = OauthSettings {
            callback_port: config.settings.mcp_oauth_callback_port,
            callback_url: config.settings.mcp_oauth_callback_url.clone(),
            store: config.settings.mcp_oauth_credentials_store,
        };
        Ok(table)
    }

    /// Reads servers from tables by name.
    pub fn of<'a>(
        tables: impl IntoIterator<Item = (&'a str, &'a Table)>,
    ) -> Result<ServerTable, ServerConfigError> {
        let mut all = ServerTable::default();
        for (name, table) in tables {
            all.add(name, table)?;
        }
        Ok(all)
    }

    /// Adds a server from another source, such as a plugin. An existing server of that name is kept.
    pub fn add(&mut self, name: &str, table: &Table) -> Result<(), ServerConfigError> {
        if !self.servers.contains_key(name) {
            self.servers.insert(name.to_owned(), Arc::new(read_server(name, table)?));
        }
        Ok(())
    }

    /// Sets servers, in place of those with their names.
    pub fn extend<'a>(&mut self, servers: impl IntoIterator<Item = (&'a str, Arc<ServerConfig>)>) {
        self.servers.extend(servers.into_iter().map(|(name, server)| (name.to_owned(), server)));
    }

    pub fn get(&self, name: &str) -> Option<&Arc<ServerConfig>> {
        self.servers.get(name)
    }

    /// Iterates over all servers, sorted by name, disabled ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<ServerConfig>)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server))
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

/// Reads a server from its table.
pub(crate) fn read_server(name: &str, table: &Table) -> Result<ServerConfig, ServerConfigError> {
    written::read(table).map_err(|error| error.in_server(name))
}

impl ServerConfigError {
    fn new(key: &str, reason: impl Into<String>) -> Self {
        Self { key: key.to_owned(), reason: reason.into() }
    }

    fn in_server(mut self, name: &str) -> Self {
        self.key = if self.key.is_empty() {
            format!("mcp_servers.{name}")
        } else {
            format!("mcp_servers.{name}.{}", self.key)
        };
        self
    }
}

impl ServerConfig {
    /// Returns whether a tool is offered.
    pub fn offers(&self, tool: &str) -> bool {
        let is_enabled = self.enabled_tools.as_ref().is_none_or(|tools| tools.contains(tool));
        is_enabled && !self.disabled_tools.contains(tool)
    }

    /// Returns whether a tool that the server lists is offered.
    pub(crate) fn offers_tool(&self, tool: &Tool) -> bool {
        self.offers(&tool.name) && self.apps.as_ref().is_none_or(|apps| apps.offers(tool))
    }

    /// Returns whether the configuration supplies the credentials of a server at a URL.
    pub(crate) fn has_own_credentials(&self) -> bool {
        matches!(&self.transport, ServerTransport::Http(http) if http.has_own_credentials())
    }

    /// Returns the approval mode of a tool.
    pub fn approval_mode(&self, tool: &str) -> ApprovalMode {
        self.approval_modes.get(tool).copied().unwrap_or_default()
    }
}

impl HttpConfig {
    /// Returns whether the configuration supplies credentials, so that OAuth is not used.
    pub(crate) fn has_own_credentials(&self) -> bool {
        let names = self.headers.keys().chain(self.env_headers.keys());
        self.bearer_token_env_var.is_some()
            || names.into_iter().any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Returns the token from the environment, if one is configured.
    pub(crate) fn bearer_token(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Secret>, String> {
        let Some(name) = &self.bearer_token_env_var else { return Ok(None) };
        match variable(name).filter(|token| !token.is_empty()) {
            Some(token) => Ok(Some(Secret::from(token))),
            None => Err(format!("environment variable {name} (bearer_token_env_var) is not set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerTable, ServerConfigError> {
        let table: Table = text.parse().unwrap();
        let servers = table["mcp_servers"].as_table().unwrap();
        ServerTable::of(servers.iter().map(|(name, server)| (name.as_str(), server.as_table().unwrap())))
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let table = read("[mcp_servers.a]\ncommand = 'x'").unwrap();
        let server = table.get("a").unwrap();
        assert!(server.enabled && !server.required);
        assert_eq!(server.startup_timeout, Duration::from_secs(10));
        assert_eq!(server.tool_timeout, Duration::from_secs(60));
        assert!(server.offers("anything"));
        assert_eq!(server.approval_mode("anything"), ApprovalMode::Auto);
    }

    #[test]
    fn every_key_is_read() {
        let table = read(
            "[mcp_servers.a]\ncommand = 'x'\nargs = ['-v']\nenv = { A = '1' }\nenv_vars = ['B', { name = 'C' }]\n\
             cwd = '/tmp'\nrequired = true\nstartup_timeout_ms = 1500\ntool_timeout_sec = 0.5\n\
             enabled_tools = ['t', 'u']\ndisabled_tools = ['u']\nunknown_key = { deep = true }\n\
             [mcp_servers.a.tools.t]\napproval_mode = 'approve'\n\
             [mcp_servers.b]\nurl = 'https://example.com/mcp'\nbearer_token_env_var = 'TOKEN'\n\
             http_headers = { X-A = '1' }\nenv_http_headers = { X-B = 'VAR' }\nenabled = false\nscopes = ['s']\n\
             oauth_resource = 'https://example.com'\n\
             [mcp_servers.b.oauth]\nclient_id = 'mine'\nclient_secret_env_var = 'SECRET'\n",
        )
        .unwrap();
        let a = table.get("a").unwrap();
        assert_eq!(a.startup_timeout, Duration::from_millis(1500));
        assert_eq!(a.tool_timeout, Duration::from_millis(500));
        assert!(a.required && a.offers("t") && !a.offers("u") && !a.offers("v"));
        assert_eq!(a.approval_mode("t"), ApprovalMode::Approve);
        let ServerTransport::Stdio(stdio) = &a.transport else { panic!("{a:?}") };
        assert_eq!(stdio.env_vars, ["B", "C"]);
        let b = table.get("b").unwrap();
        assert!(!b.enabled);
        let ServerTransport::Http(http) = &b.transport else { panic!("{b:?}") };
        assert_eq!(http.oauth_resource.as_deref(), Some("https://example.com"));
        let client = OauthClientConfig { id: "mine".to_owned(), secret_env_var: Some("SECRET".to_owned()) };
        assert_eq!(http.oauth_client, Some(client));
        assert!(http.has_own_credentials());
    }

    #[test]
    fn seconds_take_precedence_over_milliseconds() {
        let table =
            read("[mcp_servers.a]\ncommand='x'\nstartup_timeout_sec=2\nstartup_timeout_ms=9").unwrap();
        assert_eq!(table.get("a").unwrap().startup_timeout, Duration::from_secs(2));
    }

    #[test]
    fn errors_name_the_key_and_no_value() {
        let check = |text: &str, key: &str| {
            let error = read(text).unwrap_err();
            assert_eq!(error.key, key, "{error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        };
        check("[mcp_servers.a]\nenabled = true", "mcp_servers.a");
        check("[mcp_servers.a]\ncommand = 'x'\nurl = 'http://y'", "mcp_servers.a");
        check("[mcp_servers.a]\ncommand = 'x'\ntool_timeout_sec = -1", "mcp_servers.a.tool_timeout_sec");
        check("[mcp_servers.a]\nurl = 'ftp://s3cret@x'", "mcp_servers.a.url");
        check(
            "[mcp_servers.a]\nurl = 'http://x'\nhttp_headers = { 'a b' = 's3cret' }",
            "mcp_servers.a.http_headers.a b",
        );
        check(
            "[mcp_servers.a]\nurl = 'http://x'\nhttp_headers = { A = \"s3cret\\n\" }",
            "mcp_servers.a.http_headers.A",
        );
        check("[mcp_servers.a]\ncommand = 'x'\nenv = 's3cret'", "mcp_servers.a.env");
    }

    #[test]
    fn debug_shows_no_secret() {
        let table = read(
            "[mcp_servers.a]\ncommand = 'x'\nargs = ['s3cret']\nenv = { A = 's3cret' }\n\
             [mcp_servers.b]\nurl = 'http://x/s3cret'\nhttp_headers = { A = 's3cret' }",
        )
        .unwrap();
        let shown = format!("{table:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
