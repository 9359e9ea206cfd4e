//! Configuration of an evaluator: the server and its sandbox, the model, MCP servers.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_client::protocol::{AskForApproval, Personality, ReasoningEffort, ReasoningSummary, SandboxMode};
use serde_json::{Map, Value};
use thiserror::Error;

use super::{approvals::OnApproval, events::ADAPTER_NAME, login::LoginMethod};
use crate::mcp_servers::McpServer;

/// How an evaluator starts its server and what it asks of it.
///
/// ```
/// use codicil_agents::evaluate::{ClientConfig, OnApproval, SandboxMode};
///
/// let config = ClientConfig {
///     program: "/opt/codicil/bin/codicil".into(),
///     cwd: Some("/srv/project".into()),
///     sandbox_mode: Some(SandboxMode::WorkspaceWrite),
///     ..ClientConfig::default()
/// };
/// assert_eq!(config.on_approval, OnApproval::Accept);
/// ```
#[derive(Clone)]
pub struct ClientConfig {
    /// The server program, started as `PROGRAM app-server`: `codicil`. A name without a slash is looked up in `PATH`.
    pub program: PathBuf,
    /// Arguments after `app-server`, such as `-c KEY=VALUE`; none by default.
    pub args: Vec<String>,
    /// The agent's working directory, which must be absolute; by default the directory of this process. The workspace
    /// of an evaluation takes precedence.
    pub cwd: Option<PathBuf>,
    /// Environment variables of the server, in addition to those of this process; none by default.
    pub env: BTreeMap<String, String>,
    /// Whether the server's standard error is only kept for error messages: `true`. Otherwise it is also forwarded to
    /// the standard error of this process.
    pub suppress_stderr: bool,
    /// Time for the server to start and complete the handshake: 10 s.
    pub startup_timeout: Duration,
    /// What the server asks approval for: [`AskForApproval::Never`].
    pub approval_policy: AskForApproval,
    /// How approvals are answered that the server asks for: [`OnApproval::Accept`].
    pub on_approval: OnApproval,
    /// The sandbox of commands; by default that of the server's configuration.
    pub sandbox_mode: Option<SandboxMode>,
    /// How to sign in; by default the server uses its own credentials.
    pub login: Option<LoginMethod>,
    /// Whether an evaluation continues the session's thread if directory, workspace and tools are the same: `false`.
    pub reuse_thread: bool,
    /// MCP servers for the agent by name, in addition to those of the server's configuration; none by default. Their
    /// tools belong to the agent, not to the prompt.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Whether threads are kept in memory only: `false`. Ephemeral threads are not reused.
    pub ephemeral: bool,
    /// The name in `clientInfo`: `codicil-agents`.
    pub client_name: String,
    /// The version in `clientInfo`: that of this crate.
    pub client_version: String,
    /// The display name in `clientInfo`; none by default.
    pub title: Option<String>,
    /// The name under which events report this adapter: [`ADAPTER_NAME`].
    pub adapter_name: String,
    /// Time for the server to interrupt a turn, and again to exit: 5 s each. After that it is killed.
    pub stop_timeout: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            program: "codicil".into(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            suppress_stderr: true,
            startup_timeout: Duration::from_secs(10),
            approval_policy: AskForApproval::Never,
            on_approval: OnApproval::default(),
            sandbox_mode: None,
            login: None,
            reuse_thread: false,
            mcp_servers: BTreeMap::new(),
            ephemeral: false,
            client_name: "codicil-agents".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            title: None,
            adapter_name: ADAPTER_NAME.to_owned(),
            stop_timeout: Duration::from_secs(5),
        }
    }
}

impl ClientConfig {
    /// Returns the defaults of WINK's Codex adapter: the program `codex`, and the names that WINK uses.
    ///
    /// WINK has one setting for approvals. Its `never`, `untrusted` and `on-failure` are the
    /// [`approval_policy`](Self::approval_policy) of the same name with [`OnApproval::Accept`]; its `on-request` is
    /// [`AskForApproval::OnRequest`] with [`OnApproval::Decline`].
    pub fn wink() -> Self {
        Self {
            program: "codex".into(),
            client_name: "wink".to_owned(),
            client_version: "0.1.0".to_owned(),
            title: Some("WINK Agent".to_owned()),
            adapter_name: "codex_app_server".to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.program.as_os_str().is_empty() {
            return Err(ConfigError::NoProgram);
        }
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
            return Err(ConfigError::RelativeCwd(cwd.clone()));
        }
        let is_word = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        match self.mcp_servers.keys().find(|name| !is_word(name)) {
            Some(name) => Err(ConfigError::McpServerName(name.clone())),
            None => Ok(()),
        }
    }

    /// Returns whether the program exists, at its path or in `PATH`.
    pub(super) fn finds_program(&self) -> bool {
        if self.program.components().count() > 1 {
            return self.program.is_file();
        }
        let path = self.env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
        path.is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| Path::new(&directory).join(&self.program).is_file())
        })
    }

    /// Returns the `config` of `thread/start`.
    pub(super) fn overrides(&self) -> Option<Map<String, Value>> {
        if self.mcp_servers.is_empty() {
            return None;
        }
        let servers: Map<String, Value> =
            self.mcp_servers.iter().map(|(name, server)| (name.clone(), server.table().into())).collect();
        Some(Map::from_iter([("mcp_servers".to_owned(), Value::Object(servers))]))
    }
}

/// Prints names only: the values of variables and arguments may be secret.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("suppress_stderr", &self.suppress_stderr)
            .field("startup_timeout", &self.startup_timeout)
            .field("approval_policy", &self.approval_policy)
            .field("on_approval", &self.on_approval)
            .field("sandbox_mode", &self.sandbox_mode)
            .field("login", &self.login)
            .field("reuse_thread", &self.reuse_thread)
            .field("mcp_servers", &self.mcp_servers)
            .field("ephemeral", &self.ephemeral)
            .field("client_name", &self.client_name)
            .field("client_version", &self.client_version)
            .field("title", &self.title)
            .field("adapter_name", &self.adapter_name)
            .field("stop_timeout", &self.stop_timeout)
            .finish()
    }
}

/// The model and its options. Options without a place in the protocol, such as a seed or stop words, do not exist
/// here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelConfig {
    /// The model; by default the server chooses.
    pub model: Option<String>,
    /// The reasoning effort; by default that of the model.
    pub effort: Option<ReasoningEffort>,
    /// The detail of reasoning summaries.
    pub summary: Option<ReasoningSummary>,
    /// The tone of the answers.
    pub personality: Option<Personality>,
}

impl ModelConfig {
    /// Returns the default of WINK's Codex adapter: `gpt-5.1-codex`.
    pub fn wink() -> Self {
        Self::new("gpt-5.1-codex")
    }

    /// Returns the configuration of a model with default options.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..Self::default() }
    }
}

/// A configuration or prompt that cannot work.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// No program is configured.
    #[error("program is empty")]
    NoProgram,
    /// The working directory is relative.
    #[error("cwd is not absolute: {}", .0.display())]
    RelativeCwd(PathBuf),
    /// The name of an MCP server cannot be part of a tool's name.
    #[error("invalid name of an MCP server: {0:?}")]
    McpServerName(String),
    /// Two tools of a prompt have the same name.
    #[error("two tools are named {0:?}")]
    DuplicateTool(String),
    /// The name of a tool is empty, or collides with the names of MCP tools.
    #[error("a tool cannot be named {0:?}")]
    ToolName(String),
    /// The parameters of a tool are not an object.
    #[error("the parameters of tool {0:?} are not an object")]
    ToolParams(String),
    /// Two sections of a prompt have the same key.
    #[error("two sections have the key {0:?}")]
    DuplicateSection(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wink_preset_has_the_defaults_of_its_specification() {
        let config = ClientConfig::wink();
        assert_eq!(config.program, Path::new("codex"));
        assert_eq!((config.cwd.as_ref(), config.env.len(), config.suppress_stderr), (None, 0, true));
        assert_eq!(config.startup_timeout, Duration::from_secs(10));
        assert_eq!((config.approval_policy, config.on_approval), (AskForApproval::Never, OnApproval::Accept));
        assert!(config.sandbox_mode.is_none() && config.login.is_none() && config.mcp_servers.is_empty());
        assert!(!config.reuse_thread && !config.ephemeral);
        assert_eq!((&*config.client_name, &*config.client_version), ("wink", "0.1.0"));
        assert_eq!(
            (config.title.as_deref(), &*config.adapter_name),
            (Some("WINK Agent"), "codex_app_server")
        );
        assert_eq!(ModelConfig::wink(), ModelConfig::new("gpt-5.1-codex"));
    }

    #[test]
    fn the_defaults_name_no_other_product() {
        let config = ClientConfig::default();
        assert_eq!((config.program.to_str(), &*config.client_name), (Some("codicil"), "codicil-agents"));
        assert_eq!((config.title, ModelConfig::default().model), (None, None));
    }

    #[test]
    fn an_invalid_configuration_is_refused() {
        let check = |config: ClientConfig, expected: &str| {
            assert_eq!(config.check().unwrap_err().to_string(), expected);
        };
        check(ClientConfig { program: "".into(), ..Default::default() }, "program is empty");
        let cwd = Some("work".into());
        check(ClientConfig { cwd, ..Default::default() }, "cwd is not absolute: work");
        let mcp_servers = BTreeMap::from([("a.b".to_owned(), McpServer::http("http://localhost"))]);
        let name = "invalid name of an MCP server: \"a.b\"";
        check(ClientConfig { mcp_servers, ..Default::default() }, name);
    }

    #[test]
    fn mcp_servers_become_config_overrides() {
        let mcp_servers = BTreeMap::from([
            ("files".to_owned(), McpServer::stdio("/path/to/server", ["--flag"])),
            ("web".to_owned(), McpServer::http("http://localhost:8080/mcp")),
        ]);
        let config = ClientConfig { mcp_servers, ..Default::default() };
        let expected = json!({ "mcp_servers": {
            "files": { "command": "/path/to/server", "args": ["--flag"] },
            "web": { "url": "http://localhost:8080/mcp" },
        } });
        assert_eq!(Value::from(config.overrides().unwrap()), expected);
        assert_eq!(ClientConfig::default().overrides(), None);
    }

    #[test]
    fn debug_shows_no_secret() {
        let env = BTreeMap::from([("KEY".to_owned(), "s3cret".to_owned())]);
        let config = ClientConfig {
            args: vec!["s3cret".into()],
            env,
            login: Some(LoginMethod::api_key("s3cret")),
            ..Default::default()
        };
        let printed = format!("{config:?}");
        assert!(!printed.contains("s3cret") && printed.contains("KEY"), "{printed}");
    }
}
