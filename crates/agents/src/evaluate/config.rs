//! How the server is started and what the model is told: fields and defaults.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_client::protocol::{AskForApproval, Personality, ReasoningEffort, ReasoningSummary, SandboxMode};
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::auth::LoginMethod;

/// How the server is started and addressed.
///
/// ```
/// use codicil_agents::evaluate::{ApprovalPolicy, ClientConfig, SandboxMode};
///
/// let config = ClientConfig {
///     codex_bin: "codicil".into(),
///     cwd: Some("/srv/project".into()),
///     sandbox_mode: Some(SandboxMode::WorkspaceWrite),
///     ..ClientConfig::default()
/// };
/// assert_eq!(config.approval_policy, ApprovalPolicy::Never);
/// ```
#[derive(Clone)]
pub struct ClientConfig {
    /// The program to start, as `PROGRAM app-server`: `codex`. Without a slash it is looked up in `PATH`.
    pub codex_bin: PathBuf,
    /// Arguments after `app-server`, such as `-c KEY=VALUE`; none.
    pub args: Vec<String>,
    /// Where the agent works. Must be absolute. `None`: this process's directory. A workspace that is given to an
    /// evaluation counts before it.
    pub cwd: Option<PathBuf>,
    /// Variables that the server gets besides those of this process; none.
    pub env: BTreeMap<String, String>,
    /// Whether the server's standard error is only kept for errors: `true`. Otherwise it is shown as well.
    pub suppress_stderr: bool,
    /// For the server to start and shake hands: 10 s.
    pub startup_timeout: Duration,
    /// What happens when the server asks for an approval: [`ApprovalPolicy::Never`].
    pub approval_policy: ApprovalPolicy,
    /// What commands may do. `None`: as the server is configured.
    pub sandbox_mode: Option<SandboxMode>,
    /// Credentials. `None`: those that the server has by itself.
    pub auth_mode: Option<LoginMethod>,
    /// Goes on with the session's thread where directory, workspace and tools are the same: `false`.
    pub reuse_thread: bool,
    /// MCP servers for the agent besides those that the server is configured with; none.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Keeps threads in memory only: `false`. Such threads are not reused.
    pub ephemeral: bool,
    /// How this client presents itself: `wink`.
    pub client_name: String,
    /// Its version: `0.1.0`.
    pub client_version: String,
    /// How long the server may take to stop a turn, and then to end: 5 s each. Then it is killed.
    pub stop_timeout: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            codex_bin: "codex".into(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            suppress_stderr: true,
            startup_timeout: Duration::from_secs(10),
            approval_policy: ApprovalPolicy::default(),
            sandbox_mode: None,
            auth_mode: None,
            reuse_thread: false,
            mcp_servers: BTreeMap::new(),
            ephemeral: false,
            client_name: "wink".to_owned(),
            client_version: "0.1.0".to_owned(),
            stop_timeout: Duration::from_secs(5),
        }
    }
}

impl ClientConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.codex_bin.as_os_str().is_empty() {
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

    /// Whether the program is there to be started, as far as names can tell.
    pub(super) fn finds_program(&self) -> bool {
        if self.codex_bin.components().count() > 1 {
            return self.codex_bin.is_file();
        }
        let path = self.env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
        path.is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| Path::new(&folder).join(&self.codex_bin).is_file())
        })
    }

    /// `config` of `thread/start`.
    pub(super) fn overrides(&self) -> Option<Map<String, Value>> {
        if self.mcp_servers.is_empty() {
            return None;
        }
        let servers: Map<String, Value> =
            self.mcp_servers.iter().map(|(name, server)| (name.clone(), server.to_value())).collect();
        Some(Map::from_iter([("mcp_servers".to_owned(), Value::Object(servers))]))
    }
}

/// Shows names, not values: variables and arguments may be secret.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("codex_bin", &self.codex_bin)
            .field("args", &self.args.len())
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("suppress_stderr", &self.suppress_stderr)
            .field("startup_timeout", &self.startup_timeout)
            .field("approval_policy", &self.approval_policy)
            .field("sandbox_mode", &self.sandbox_mode)
            .field("auth_mode", &self.auth_mode)
            .field("reuse_thread", &self.reuse_thread)
            .field("mcp_servers", &self.mcp_servers)
            .field("ephemeral", &self.ephemeral)
            .field("client_name", &self.client_name)
            .field("client_version", &self.client_version)
            .field("stop_timeout", &self.stop_timeout)
            .finish()
    }
}

/// What the server may ask for, and what it is answered: there is nobody to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nothing is to be asked; what is asked all the same is accepted. The sandbox is the limit.
    #[default]
    Never,
    /// Commands that are not trusted are asked about, and accepted.
    Untrusted,
    /// What the sandbox stopped is asked about, and accepted.
    OnFailure,
    /// Everything that is asked about is declined.
    OnRequest,
}

impl ApprovalPolicy {
    /// Whether approvals are given.
    pub fn accepts(self) -> bool {
        self != Self::OnRequest
    }

    pub(super) fn on_the_wire(self) -> AskForApproval {
        match self {
            Self::Never => AskForApproval::Never,
            Self::Untrusted => AskForApproval::Untrusted,
            Self::OnFailure => AskForApproval::OnFailure,
            Self::OnRequest => AskForApproval::OnRequest,
        }
    }
}

/// An MCP server that the agent may use. Its tools belong to the agent, not to the prompt.
#[derive(Clone, PartialEq, Eq)]
pub enum McpServer {
    /// A program that the server starts and speaks to over pipes.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: BTreeMap<String, String>,
    },
    /// An address that speaks streamable HTTP.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// The name of a variable of the server that holds a bearer token.
        bearer_token_env_var: Option<String>,
    },
}

impl McpServer {
    /// A program with its arguments.
    pub fn stdio<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: BTreeMap::new() }
    }

    /// An address.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), bearer_token_env_var: None }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Stdio { command, args, env } if env.is_empty() => {
                json!({ "command": command, "args": args })
            }
            Self::Stdio { command, args, env } => json!({ "command": command, "args": args, "env": env }),
            Self::Http { url, bearer_token_env_var: None } => json!({ "url": url }),
            Self::Http { url, bearer_token_env_var } => {
                json!({ "url": url, "bearer_token_env_var": bearer_token_env_var })
            }
        }
    }
}

/// Arguments, variables and queries may be secret.
impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys().collect::<Vec<_>>())
                .finish(),
            Self::Http { url, bearer_token_env_var } => {
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                let shown = match (plain.split_once("://"), plain.rsplit_once('@')) {
                    (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
                    _ => plain.to_owned(),
                };
                let mut shows = f.debug_struct("Http");
                shows.field("url", &shown).field("bearer_token_env_var", bearer_token_env_var).finish()
            }
        }
    }
}

/// Which model answers, and how. What the protocol has no place for (a seed, stop words, penalties) is not here.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// `gpt-5.1-codex`.
    pub model: String,
    /// `None`: as the model does by itself.
    pub effort: Option<ReasoningEffort>,
    /// How much is told of the model's thinking.
    pub summary: Option<ReasoningSummary>,
    /// The tone of answers.
    pub personality: Option<Personality>,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self { model: "gpt-5.1-codex".to_owned(), effort: None, summary: None, personality: None }
    }
}

impl ModelConfig {
    /// This model with everything else as it is by default.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), ..Self::default() }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// There is nothing to start.
    #[error("codex_bin is empty")]
    NoProgram,
    /// The protocol wants absolute directories.
    #[error("cwd is not absolute: {}", .0.display())]
    RelativeCwd(PathBuf),
    /// A name that cannot be part of a tool's name.
    #[error("invalid name of an MCP server: {0:?}")]
    McpServerName(String),
    /// Two tools of a prompt have the same name.
    #[error("two tools are named {0:?}")]
    DuplicateTool(String),
    /// Empty, or in the space of names that MCP tools have.
    #[error("a tool cannot be named {0:?}")]
    ToolName(String),
    /// A tool's parameters must be an object.
    #[error("the parameters of tool {0:?} are not an object")]
    ToolParams(String),
    /// Two sections of a prompt have the same key.
    #[error("two sections have the key {0:?}")]
    DuplicateSection(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let config = ClientConfig::default();
        assert_eq!(config.codex_bin, Path::new("codex"));
        assert_eq!((config.cwd.as_ref(), config.env.len(), config.suppress_stderr), (None, 0, true));
        assert_eq!(config.startup_timeout, Duration::from_secs(10));
        assert_eq!((config.approval_policy, &config.sandbox_mode), (ApprovalPolicy::Never, &None));
        assert!(config.auth_mode.is_none() && config.mcp_servers.is_empty());
        assert!(!config.reuse_thread && !config.ephemeral);
        assert_eq!((&*config.client_name, &*config.client_version), ("wink", "0.1.0"));
        let model = ModelConfig::default();
        assert_eq!(model.model, "gpt-5.1-codex");
        assert_eq!((model.effort, model.summary, model.personality), (None, None, None));
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused() {
        let check = |config: ClientConfig, expected: &str| {
            assert_eq!(config.check().unwrap_err().to_string(), expected);
        };
        check(ClientConfig { codex_bin: "".into(), ..Default::default() }, "codex_bin is empty");
        let cwd = Some("work".into());
        check(ClientConfig { cwd, ..Default::default() }, "cwd is not absolute: work");
        let mcp_servers = BTreeMap::from([("a.b".to_owned(), McpServer::http("http://localhost"))]);
        let name = "invalid name of an MCP server: \"a.b\"";
        check(ClientConfig { mcp_servers, ..Default::default() }, name);
    }

    #[test]
    fn mcp_servers_are_written_as_the_configuration_has_them() {
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
        let stdio = McpServer::Stdio { command: "x".into(), args: vec!["s3cret".into()], env: env.clone() };
        let http = McpServer::http("https://me:s3cret@host/mcp?token=s3cret");
        let config = ClientConfig {
            args: vec!["s3cret".into()],
            env,
            auth_mode: Some(LoginMethod::api_key("s3cret")),
            mcp_servers: BTreeMap::from([("a".into(), stdio), ("b".into(), http)]),
            ..Default::default()
        };
        let shown = format!("{config:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("https://host/mcp") && shown.contains("KEY"), "{shown}");
    }
}
