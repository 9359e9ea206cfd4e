//! How a desktop starts its server: every setting on the command line, nothing left to chance.

use std::{ffi::OsString, fmt};

use codicil_client::ServerLaunch;

use crate::workspace::hex;

/// A server's command line: `PROGRAM app-server -c KEY=VALUE …`, and its environment.
///
/// ```
/// use codicil_agents::pool::{McpServer, McpToken, ServerCommand, BuiltinTool};
///
/// let token = McpToken::generate("DESK_MCP_TOKEN")?;
/// let server = |name: &str| McpServer::new(name, format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
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
    /// Looked up in `PATH` unless it has a slash.
    pub program: OsString,
    /// Tools that the model does not get: [`Tool::Shell`], since a desktop is no terminal.
    pub disabled: Vec<BuiltinTool>,
    /// Where the product's own tools are.
    pub mcp_servers: Vec<McpServer>,
    /// The server's default.
    pub model: Option<String>,
    /// `medium`.
    pub reasoning_effort: Option<String>,
    /// `none`: the product's instructions set the tone.
    pub personality: Option<String>,
    /// `danger-full-access`. Without the shell nothing runs that a sandbox would hold.
    pub sandbox_mode: Option<String>,
    /// `never`. For questions that come as [`ApprovalRequest`](super::StreamMessage::ApprovalRequest):
    /// `on-request` or `untrusted`.
    pub approval_policy: Option<String>,
    /// Any other settings, by their dotted keys. Values are as in TOML.
    pub settings: Vec<(String, String)>,
    /// The port of the product's own server, as `PORT`.
    pub port: Option<u16>,
    /// More variables. `CI=1` is always there: nobody can answer a prompt.
    pub env: Vec<(OsString, OsString)>,
}

impl ServerCommand {
    /// With the defaults of each field.
    pub fn new(program: impl Into<OsString>) -> Self {
        let some = |text: &str| Some(text.to_owned());
        Self {
            program: program.into(),
            disabled: vec![BuiltinTool::Shell],
            mcp_servers: Vec::new(),
            model: None,
            reasoning_effort: some("medium"),
            personality: some("none"),
            sandbox_mode: some("danger-full-access"),
            approval_policy: some("never"),
            settings: Vec::new(),
            port: None,
            env: Vec::new(),
        }
    }

    /// What the client starts.
    pub fn launch(&self) -> ServerLaunch {
        let mut launch = ServerLaunch::new(&self.program).env("CI", "1");
        for (key, value) in self.flags() {
            launch = launch.config(&key, value);
        }
        for token in self.mcp_servers.iter().filter_map(|server| server.token.as_ref()) {
            launch = launch.env(&token.variable, &token.value);
        }
        if let Some(port) = self.port {
            launch = launch.env("PORT", port.to_string());
        }
        self.env.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }

    /// The `-c` settings, in order. They hold no secret.
    pub fn flags(&self) -> Vec<(String, String)> {
        let mut flags: Vec<_> = self.disabled.iter().map(BuiltinTool::flag).collect();
        flags.extend(self.mcp_servers.iter().flat_map(McpServer::flags));
        let words = [
            ("model", &self.model),
            ("model_reasoning_effort", &self.reasoning_effort),
            ("model_personality", &self.personality),
            ("sandbox_mode", &self.sandbox_mode),
            ("approval_policy", &self.approval_policy),
        ];
        for (key, value) in words {
            flags.extend(value.as_ref().map(|value| (key.to_owned(), word(value))));
        }
        flags.extend(self.settings.iter().cloned());
        flags
    }
}

/// A built-in tool that can be taken away. Plans and MCP resources cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinTool {
    /// Commands.
    Shell,
    /// Searches on the web, done by the provider.
    WebSearch,
    /// Looking at image files.
    ViewImage,
    /// Editing files.
    ApplyPatch,
    /// Other agents.
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

/// An MCP server that the product offers over HTTP.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    /// Of its streamable HTTP endpoint.
    pub url: String,
    /// What the server is to show when it connects.
    pub token: Option<McpToken>,
    /// Only these of its tools, if any are named.
    pub enabled_tools: Vec<String>,
    /// All but these, of what is left.
    pub disabled_tools: Vec<String>,
}

impl McpServer {
    /// With all of its tools, for everybody.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        let (enabled_tools, disabled_tools) = (Vec::new(), Vec::new());
        Self { name: name.into(), url: url.into(), token: None, enabled_tools, disabled_tools }
    }

    /// Only for those who know the token.
    pub fn token(self, token: &McpToken) -> Self {
        Self { token: Some(token.clone()), ..self }
    }

    fn flags(&self) -> Vec<(String, String)> {
        let key = |name: &str| format!("mcp_servers.{}.{name}", self.name);
        let mut flags = vec![(key("url"), word(&self.url))];
        flags.extend(self.token.as_ref().map(|token| (key("bearer_token_env_var"), token.variable.clone())));
        for (name, tools) in
            [("enabled_tools", &self.enabled_tools), ("disabled_tools", &self.disabled_tools)]
        {
            if !tools.is_empty() {
                // A list of texts is the same in JSON and TOML.
                flags.push((key(name), serde_json::json!(tools).to_string()));
            }
        }
        flags
    }
}

/// A secret between the product's MCP servers and the agent's server. It travels in a variable, so that no
/// list of processes shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct McpToken {
    variable: String,
    value: String,
}

impl McpToken {
    /// 256 bits from the operating system. Fails where that has none to give.
    pub fn generate(variable: impl Into<String>) -> std::io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self { variable: variable.into(), value: hex(&bytes) })
    }

    /// One that is known already.
    pub fn new(variable: impl Into<String>, value: impl Into<String>) -> Self {
        Self { variable: variable.into(), value: value.into() }
    }

    /// The name of the variable.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// For the product's MCP servers to compare with.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Not the secret.
impl fmt::Debug for McpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToken").field("variable", &self.variable).finish_non_exhaustive()
    }
}

/// A text as a setting's value: as it is where nothing else could be meant, in quotes where it could.
fn word(text: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_safe);
    match is_plain && !matches!(text, "true" | "false" | "inf" | "nan") {
        true => text.to_owned(),
        false => serde_json::json!(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(command: &ServerCommand) -> Vec<String> {
        command.flags().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn the_flags_are_those_of_the_guide() {
        let token = McpToken::new("YAAR_MCP_TOKEN", "s3cret");
        let server =
            |name: &str| McpServer::new(name, format!("http://127.0.0.1:8000/mcp/{name}")).token(&token);
        let command = ServerCommand {
            mcp_servers: ["system", "window", "storage", "apps"].map(server).into(),
            model: Some("gpt-5.3-codex".to_owned()),
            ..ServerCommand::new("codex")
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
        let server = McpServer {
            enabled_tools: vec!["tool1".into(), "tool2".into()],
            disabled_tools: vec!["tool3".into()],
            ..McpServer::new("my_server", "http://localhost:1/mcp")
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
    fn what_could_be_read_as_something_else_is_quoted() {
        let check = |text: &str, expected: &str| assert_eq!(word(text), expected);
        check("gpt-5.3-codex", "gpt-5.3-codex");
        check("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp");
        check("true", "\"true\"");
        check("5", "\"5\"");
        check("a model", "\"a model\"");
        check("", "\"\"");
        check("a\"b", r#""a\"b""#);
    }

    #[test]
    fn tokens_are_secret_and_never_the_same() {
        let (one, other) = (McpToken::generate("T").unwrap(), McpToken::generate("T").unwrap());
        assert!(one.value().len() == 64 && one != other);
        assert_eq!(format!("{one:?}"), "McpToken { variable: \"T\", .. }");
    }
}
