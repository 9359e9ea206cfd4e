//! The command line of a server, with all settings given explicitly.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use codicil_client::ServerLaunch;
use serde_json::{Map, Value, json};

use crate::mcp_servers::McpServer;

/// The command line of a server, `PROGRAM app-server -c KEY=VALUE …`, and its environment.
///
/// ```
/// use codicil_agents::{
///     mcp_servers::{HttpMcpServer, McpToken},
///     pool::{BuiltinTool, ServerCommand},
/// };
///
/// let token = McpToken::generate("DESK_MCP_TOKEN")?;
/// let server = |name: &str| {
///     let server = HttpMcpServer::new(format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
///     (name.to_owned(), server.into())
/// };
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
    /// The product's own MCP servers, by name: letters, digits, `_` and `-`.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// The model; by default the server chooses.
    pub model: Option<String>,
    /// The reasoning effort, such as `medium`; by default that of the server's configuration.
    pub reasoning_effort: Option<String>,
    /// The personality, such as `none` for a product whose instructions set the tone.
    pub personality: Option<String>,
    /// The approval policy. With `on-request` or `untrusted`, approvals arrive as
    /// [`ApprovalRequest`](super::StreamMessage::ApprovalRequest).
    pub approval_policy: Option<String>,
    /// Other settings, by their dotted keys. Values are written in TOML. The sandbox is a setting of threads, which takes
    /// precedence: [`PoolSettings::thread`](super::PoolSettings::thread).
    pub settings: Vec<(String, String)>,
    /// The home of the server, with its configuration, credentials and threads; by default that of the user.
    pub home: Option<PathBuf>,
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
            mcp_servers: BTreeMap::new(),
            model: None,
            reasoning_effort: None,
            personality: None,
            approval_policy: None,
            settings: Vec::new(),
            home: None,
            port: None,
            env: Vec::new(),
        }
    }

    /// Creates the command line of YAAR's integration guide: no shell, no edits, no web search, no viewing of images,
    /// effort `medium`, personality `none`, approvals `never`.
    pub fn yaar(program: impl Into<OsString>) -> Self {
        use BuiltinTool::{ApplyPatch, Shell, ViewImage, WebSearch};
        Self {
            disabled: vec![Shell, ApplyPatch, WebSearch, ViewImage],
            reasoning_effort: Some("medium".to_owned()),
            personality: Some("none".to_owned()),
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
        for token in self.mcp_servers.values().filter_map(McpServer::token) {
            if let Some(value) = token.value() {
                launch = launch.env(token.variable(), value);
            }
        }
        // Codicil reads the first variable, other servers the second.
        for variable in ["CODICIL_HOME", "CODEX_HOME"] {
            if let Some(home) = &self.home {
                launch = launch.env(variable, home);
            }
        }
        if let Some(port) = self.port {
            launch = launch.env("PORT", port.to_string());
        }
        self.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// Returns the `-c` settings, in order. They do not contain tokens of MCP servers.
    pub fn flags(&self) -> Vec<(String, String)> {
        let mut flags: Vec<_> = self.disabled.iter().map(BuiltinTool::flag).collect();
        for (name, server) in &self.mcp_servers {
            push_flags(&format!("mcp_servers.{name}"), &server.table(), &mut flags);
        }
        let optional = [
            ("model", &self.model),
            ("model_reasoning_effort", &self.reasoning_effort),
            ("model_personality", &self.personality),
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

/// Appends `-c` settings for a table, one per value.
fn push_flags(prefix: &str, table: &Map<String, Value>, flags: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let key = format!("{prefix}.{}", toml_key(name));
        match value {
            Value::Object(table) => push_flags(&key, table, flags),
            Value::String(text) => flags.push((key, toml_value(text))),
            // Numbers and lists of strings have the same form in JSON and TOML.
            value => flags.push((key, value.to_string())),
        }
    }
}

/// Formats a key of a table: bare where that is allowed, quoted otherwise.
fn toml_key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { json!(name).to_string() }
}

/// Formats a string as a TOML value: bare where it is unambiguous, quoted otherwise.
fn toml_value(text: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_safe);
    if is_plain && !matches!(text, "true" | "false" | "inf" | "nan") {
        return text.to_owned();
    }
    json!(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp_servers::{HttpMcpServer, McpToken, StdioMcpServer};

    fn lines(command: &ServerCommand) -> Vec<String> {
        command.flags().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn the_yaar_preset_has_the_flags_of_its_guide() {
        let token = McpToken::new("YAAR_MCP_TOKEN", "s3cret");
        let server = |name: &str| {
            let server = HttpMcpServer::new(format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
            (name.to_owned(), server.into())
        };
        let command = ServerCommand {
            mcp_servers: ["system", "window", "storage", "apps"].map(server).into(),
            model: Some("gpt-5.3-codex".to_owned()),
            ..ServerCommand::yaar("codex")
        };
        let mut expected: Vec<_> = "features.shell_tool=false
            include_apply_patch_tool=false
            web_search=disabled
            tools_view_image=false
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
            approval_policy=never"
            .lines()
            .map(str::trim)
            .collect();
        let mut found = lines(&command);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
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
    fn options_of_mcp_servers_are_flags() {
        let http = McpServer::from(HttpMcpServer::new("http://localhost:1/mcp").header("X-Desk", "one two"))
            .only_tools(["tool1", "tool2"])
            .without_tools(["tool3"])
            .tool_timeout(std::time::Duration::from_secs(5));
        let stdio = StdioMcpServer::new("files", ["-r"]).env("a.b", "c").cwd("/srv");
        let command = ServerCommand {
            mcp_servers: BTreeMap::from([("my_server".to_owned(), http), ("files".to_owned(), stdio.into())]),
            settings: vec![("features.x".into(), "true".into())],
            ..ServerCommand::new("codicil")
        };
        let expected = r#"mcp_servers.files.args=["-r"]
            mcp_servers.files.command=files
            mcp_servers.files.cwd="/srv"
            mcp_servers.files.env."a.b"=c
            mcp_servers.my_server.disabled_tools=["tool3"]
            mcp_servers.my_server.enabled_tools=["tool1","tool2"]
            mcp_servers.my_server.http_headers.X-Desk="one two"
            mcp_servers.my_server.tool_timeout_sec=5.0
            mcp_servers.my_server.url=http://localhost:1/mcp
            features.x=true"#;
        let mut found = lines(&command);
        assert_eq!(found.pop().as_deref(), Some("features.x=true"));
        found.sort_unstable();
        found.push("features.x=true".to_owned());
        assert_eq!(found, expected.lines().map(str::trim).collect::<Vec<_>>());
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
}
