//! The command line of a server, with all settings given explicitly.

use std::{ffi::OsString, fmt};

use codicil_client::{ServerLaunch, protocol::Secret};

use crate::workspace::hex;

/// The command line of a server, `PROGRAM app-server -c KEY=VALUE …`, and its environment.
///
/// ```
/// use codicil_agents::pool::{BuiltinTool, HttpMcpServer, McpToken, ServerCommand};
///
/// let token = McpToken::generate("DESK_MCP_TOKEN")?;
/// let server = |name: &str| HttpMcpServer::new(name, format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
/// let command = ServerCommand {
///     disabled: vec![BuiltinTool::Shell, BuiltinTool::WebSearch],
///     mcp_servers: ["system", "window", "storage", "apps"].map(server).into(),
///     ..ServerCommand::new("codicil")
/// };
/// let launch = command.launch();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The program, looked up in `PATH` unless it contains a slash.
    pub program: OsString,
    /// Built-in tools that the model does not get; none by default.
    pub disabled: Vec<BuiltinTool>,
    /// The product's own MCP servers.
    pub mcp_servers: Vec<HttpMcpServer>,
    /// The model; by default the server chooses.
    pub model: Option<String>,
    /// The reasoning effort, such as `medium`; by default that of the server's configuration.
    pub reasoning_effort: Option<String>,
    /// The personality, such as `none` for a product whose instructions set the tone.
    pub personality: Option<String>,
    /// The sandbox of commands, such as `workspace-write`.
    pub sandbox_mode: Option<String>,
    /// The approval policy. With `on-request` or `untrusted`, approvals arrive as
    /// [`ApprovalRequest`](super::StreamMessage::ApprovalRequest).
    pub approval_policy: Option<String>,
    /// Other settings, by their dotted keys. Values are written in TOML.
    pub settings: Vec<(String, String)>,
    /// The port of the product's own server, passed as `PORT`.
    pub port: Option<u16>,
    /// Environment variables. `CI=1` is always set, since no user can answer a prompt of the server.
    pub env: Vec<(OsString, OsString)>,
}

impl ServerCommand {
    /// Creates a command line without settings: the server's configuration applies.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            disabled: Vec::new(),
            mcp_servers: Vec::new(),
            model: None,
            reasoning_effort: None,
            personality: None,
            sandbox_mode: None,
            approval_policy: None,
            settings: Vec::new(),
            port: None,
            env: Vec::new(),
        }
    }

    /// Creates the command line of YAAR's integration guide: no shell, effort `medium`, personality `none`, sandbox
    /// `danger-full-access`, approvals `never`. Without a shell there are no commands for a sandbox to confine.
    pub fn yaar(program: impl Into<OsString>) -> Self {
        Self {
            disabled: vec![BuiltinTool::Shell],
            reasoning_effort: Some("medium".to_owned()),
            personality: Some("none".to_owned()),
            sandbox_mode: Some("danger-full-access".to_owned()),
            approval_policy: Some("never".to_owned()),
            ..Self::new(program)
        }
    }

    /// Returns the command for the client to start.
    pub fn launch(&self) -> ServerLaunch {
        let mut launch = ServerLaunch::new(&self.program).env("CI", "1");
        for (key, value) in self.flags() {
            launch = launch.config(&key, value);
        }
        for token in self.mcp_servers.iter().filter_map(|server| server.token.as_ref()) {
            launch = launch.env(&token.variable, token.value());
        }
        if let Some(port) = self.port {
            launch = launch.env("PORT", port.to_string());
        }
        self.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Returns the `-c` settings, in order. They contain no secrets.
    pub fn flags(&self) -> Vec<(String, String)> {
        let mut flags: Vec<_> = self.disabled.iter().map(BuiltinTool::flag).collect();
        flags.extend(self.mcp_servers.iter().flat_map(HttpMcpServer::flags));
        let optional = [
            ("model", &self.model),
            ("model_reasoning_effort", &self.reasoning_effort),
            ("model_personality", &self.personality),
            ("sandbox_mode", &self.sandbox_mode),
            ("approval_policy", &self.approval_policy),
        ];
        for (key, value) in optional {
            flags.extend(value.as_ref().map(|value| (key.to_owned(), toml_value(value))));
        }
        flags.extend(self.settings.iter().cloned());
        flags
    }
}

/// A built-in tool that can be disabled. Plans and MCP resources cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinTool {
    /// Commands.
    Shell,
    /// Web searches by the provider.
    WebSearch,
    /// Viewing image files.
    ViewImage,
    /// Editing files.
    ApplyPatch,
    /// Subagents.
    Collab,
}

impl BuiltinTool {
    fn flag(&self) -> (String, String) {
        let (key, value) = match self {
            Self::Shell => ("features.shell_tool", "false"),
            Self::WebSearch => ("web_search", "disabled"),
            Self::ViewImage => ("tools_view_image", "false"),
            Self::ApplyPatch => ("include_apply_patch_tool", "false"),
            Self::Collab => ("features.collab", "false"),
        };
        (key.to_owned(), value.to_owned())
    }
}

/// An MCP server of the product, reached by HTTP.
#[derive(Clone, Debug)]
pub struct HttpMcpServer {
    /// The name: letters, digits, `_` and `-`.
    pub name: String,
    /// The URL of its streamable HTTP endpoint.
    pub url: String,
    /// The bearer token that the agent's server presents.
    pub token: Option<McpToken>,
    /// The only tools to offer, unless empty.
    pub enabled_tools: Vec<String>,
    /// Tools to leave out.
    pub disabled_tools: Vec<String>,
}

impl HttpMcpServer {
    /// Creates a server with all of its tools and without a token.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            token: None,
            enabled_tools: Vec::new(),
            disabled_tools: Vec::new(),
        }
    }

    /// Requires this bearer token.
    pub fn token(self, token: &McpToken) -> Self {
        Self { token: Some(token.clone()), ..self }
    }

    fn flags(&self) -> Vec<(String, String)> {
        let key = |name: &str| format!("mcp_servers.{}.{name}", self.name);
        let mut flags = vec![(key("url"), toml_value(&self.url))];
        flags.extend(self.token.as_ref().map(|token| (key("bearer_token_env_var"), token.variable.clone())));
        for (name, tools) in
            [("enabled_tools", &self.enabled_tools), ("disabled_tools", &self.disabled_tools)]
        {
            if !tools.is_empty() {
                // A list of strings has the same form in JSON and TOML.
                flags.push((key(name), serde_json::json!(tools).to_string()));
            }
        }
        flags
    }
}

/// A secret shared by the product's MCP servers and the agent's server. It is passed in an environment variable, so
/// that process lists do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct McpToken {
    variable: String,
    value: Secret,
}

impl McpToken {
    /// Generates 256 random bits. Fails if the operating system provides none.
    pub fn generate(variable: impl Into<String>) -> std::io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self { variable: variable.into(), value: hex(&bytes).into() })
    }

    /// Creates a token from a known value.
    pub fn new(variable: impl Into<String>, value: impl Into<String>) -> Self {
        Self { variable: variable.into(), value: value.into().into() }
    }

    /// Returns the name of the environment variable.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Returns the value, for the product's MCP servers to compare with.
    pub fn value(&self) -> &str {
        self.value.reveal()
    }
}

/// Prints the variable's name only.
impl fmt::Debug for McpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToken").field("variable", &self.variable).finish_non_exhaustive()
    }
}

/// Formats a string as a TOML value: bare where it is unambiguous, quoted otherwise.
fn toml_value(text: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_safe);
    if is_plain && !matches!(text, "true" | "false" | "inf" | "nan") {
        return text.to_owned();
    }
    serde_json::json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(command: &ServerCommand) -> Vec<String> {
        command.flags().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn the_yaar_preset_has_the_flags_of_its_guide() {
        let token = McpToken::new("YAAR_MCP_TOKEN", "s3cret");
        let server =
            |name: &str| HttpMcpServer::new(name, format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
        let command = ServerCommand {
            mcp_servers: ["system", "window", "storage", "apps"].map(server).into(),
            model: Some("gpt-5.3-codex".to_owned()),
            ..ServerCommand::yaar("codex")
        };
        let expected = "features.shell_tool=false
            mcp_servers.system.url=http://127.0.0.1:8000/mcp/system
            mcp_servers.system.bearer_token_env_var=YAAR_MCP_TOKEN
            mcp_servers.window.url=http://127.0.0.1:8000/mcp/window
            mcp_servers.window.bearer_token_env_var=YAAR_MCP_TOKEN
            mcp_servers.storage.url=http://127.0.0.1:8000/mcp/storage
            mcp_servers.storage.bearer_token_env_var=YAAR_MCP_TOKEN
            mcp_servers.apps.url=http://127.0.0.1:8000/mcp/apps
            mcp_servers.apps.bearer_token_env_var=YAAR_MCP_TOKEN
            model=gpt-5.3-codex
            model_reasoning_effort=medium
            model_personality=none
            sandbox_mode=danger-full-access
            approval_policy=never";
        assert_eq!(lines(&command), expected.lines().map(str::trim).collect::<Vec<_>>());
        assert!(!format!("{command:?} {:?}", command.launch()).contains("s3cret"));
    }

    #[test]
    fn each_tool_that_can_be_disabled_has_its_setting() {
        let check = |tool: BuiltinTool, flag: &str| {
            let command = ServerCommand { disabled: vec![tool], ..ServerCommand::new("codicil") };
            assert_eq!(lines(&command)[0], flag);
        };
        check(BuiltinTool::Shell, "features.shell_tool=false");
        check(BuiltinTool::WebSearch, "web_search=disabled");
        check(BuiltinTool::ViewImage, "tools_view_image=false");
        check(BuiltinTool::ApplyPatch, "include_apply_patch_tool=false");
        check(BuiltinTool::Collab, "features.collab=false");
    }

    #[test]
    fn tools_of_mcp_servers_are_filtered_by_name() {
        let server = HttpMcpServer {
            enabled_tools: vec!["tool1".into(), "tool2".into()],
            disabled_tools: vec!["tool3".into()],
            ..HttpMcpServer::new("my_server", "http://localhost:1/mcp")
        };
        let command = ServerCommand {
            disabled: Vec::new(),
            mcp_servers: vec![server],
            settings: vec![("features.x".into(), "true".into())],
            ..ServerCommand::new("codicil")
        };
        let flags = lines(&command);
        assert!(flags.contains(&r#"mcp_servers.my_server.enabled_tools=["tool1","tool2"]"#.to_owned()));
        assert!(flags.contains(&r#"mcp_servers.my_server.disabled_tools=["tool3"]"#.to_owned()));
        assert_eq!(flags.last().unwrap(), "features.x=true");
    }

    #[test]
    fn ambiguous_values_are_quoted() {
        let check = |text: &str, expected: &str| assert_eq!(toml_value(text), expected);
        check("gpt-5.3-codex", "gpt-5.3-codex");
        check("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp");
        check("true", "\"true\"");
        check("5", "\"5\"");
        check("a model", "\"a model\"");
        check("", "\"\"");
        check("a\"b", r#""a\"b""#);
    }

    #[test]
    fn tokens_are_random_and_not_printed() {
        let one = McpToken::generate("T").unwrap();
        let other = McpToken::generate("T").unwrap();
        assert!(one.value().len() == 64 && one != other);
        assert_eq!(format!("{one:?}"), "McpToken { variable: \"T\", .. }");
    }
}
