//! MCP servers for agents, in the form of `[mcp_servers.NAME]` of the server's configuration.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use codicil_client::{protocol::Secret, redact_url};
use serde_json::{Map, Value, json};

use crate::workspace::hex;

/// An MCP server that agents may use, with its tools and timeouts.
///
/// ```
/// use std::time::Duration;
///
/// use codicil_agents::mcp_servers::{HttpMcpServer, McpServer, McpToken, StdioMcpServer};
///
/// let token = McpToken::generate("DESK_MCP_TOKEN")?;
/// let windows = McpServer::from(HttpMcpServer::new("http://127.0.0.1:8000/mcp/window").token(&token))
///     .only_tools(["open", "close"])
///     .tool_timeout(Duration::from_secs(20));
/// let files = McpServer::from(StdioMcpServer::new("mcp-files", ["--read-only"]).cwd("/srv/project"));
/// let search = McpServer::http("https://search.example/mcp");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    transport: McpTransport,
    only_tools: Vec<String>,
    without_tools: Vec<String>,
    startup_timeout: Option<Duration>,
    tool_timeout: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum McpTransport {
    Stdio(StdioMcpServer),
    Http(HttpMcpServer),
}

impl McpServer {
    /// Returns a server that is started as a program.
    pub fn stdio<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        StdioMcpServer::new(command, args).into()
    }

    /// Returns a server that speaks streamable HTTP at this URL.
    pub fn http(url: impl Into<String>) -> Self {
        HttpMcpServer::new(url).into()
    }

    /// Offers only these tools.
    pub fn only_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.only_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Leaves these tools out, even if they are among the only ones.
    pub fn without_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.without_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Sets the time to start and connect; by default that of the agent's server.
    pub fn startup_timeout(mut self, timeout: Duration) -> Self {
        self.startup_timeout = Some(timeout);
        self
    }

    /// Sets the time of a tool call; by default that of the agent's server.
    pub fn tool_timeout(mut self, timeout: Duration) -> Self {
        self.tool_timeout = Some(timeout);
        self
    }

    fn new(transport: McpTransport) -> Self {
        Self {
            transport,
            only_tools: Vec::new(),
            without_tools: Vec::new(),
            startup_timeout: None,
            tool_timeout: None,
        }
    }

    /// Returns the token, whose variable the agent's server needs.
    pub(crate) fn token(&self) -> Option<&McpToken> {
        match &self.transport {
            McpTransport::Stdio(_) => None,
            McpTransport::Http(server) => server.token.as_ref(),
        }
    }

    /// Returns the table `[mcp_servers.NAME]`.
    pub(crate) fn table(&self) -> Map<String, Value> {
        let mut table = match &self.transport {
            McpTransport::Stdio(server) => server.table(),
            McpTransport::Http(server) => server.table(),
        };
        let seconds = |timeout: Option<Duration>| timeout.map(|timeout| json!(timeout.as_secs_f64()));
        let tools = |tools: &Vec<String>| (!tools.is_empty()).then(|| json!(tools));
        set(&mut table, "enabled_tools", tools(&self.only_tools));
        set(&mut table, "disabled_tools", tools(&self.without_tools));
        set(&mut table, "startup_timeout_sec", seconds(self.startup_timeout));
        set(&mut table, "tool_timeout_sec", seconds(self.tool_timeout));
        table
    }
}

impl From<StdioMcpServer> for McpServer {
    fn from(server: StdioMcpServer) -> Self {
        Self::new(McpTransport::Stdio(server))
    }
}

impl From<HttpMcpServer> for McpServer {
    fn from(server: HttpMcpServer) -> Self {
        Self::new(McpTransport::Http(server))
    }
}

/// An MCP server that the agent's server starts as a program and talks to over pipes.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioMcpServer {
    command: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
}

impl StdioMcpServer {
    /// Creates a server from its program and arguments.
    pub fn new<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { command: command.into(), args, env: BTreeMap::new(), cwd: None }
    }

    /// Sets an environment variable of the program.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory of the program; by default that of the agent's server.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    fn table(&self) -> Map<String, Value> {
        let mut table = Map::from_iter([("command".to_owned(), json!(self.command))]);
        set(&mut table, "args", Some(json!(self.args)));
        set(&mut table, "env", (!self.env.is_empty()).then(|| json!(self.env)));
        set(&mut table, "cwd", self.cwd.as_ref().map(|cwd| json!(cwd.to_string_lossy())));
        table
    }
}

/// An MCP server that speaks streamable HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpMcpServer {
    url: String,
    token: Option<McpToken>,
    headers: BTreeMap<String, String>,
    env_headers: BTreeMap<String, String>,
}

impl HttpMcpServer {
    /// Creates a server from its `http://` or `https://` URL.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        Self { url, token: None, headers: BTreeMap::new(), env_headers: BTreeMap::new() }
    }

    /// Authenticates with this bearer token.
    pub fn token(mut self, token: &McpToken) -> Self {
        self.token = Some(token.clone());
        self
    }

    /// Adds a header to every request. The value is part of the server's command line if the server is one of a
    /// [`ServerCommand`](crate::pool::ServerCommand); for secrets use a token or [`env_header`](Self::env_header).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds a header whose value is that of an environment variable of the agent's server.
    pub fn env_header(mut self, name: impl Into<String>, variable: impl Into<String>) -> Self {
        self.env_headers.insert(name.into(), variable.into());
        self
    }

    fn table(&self) -> Map<String, Value> {
        let mut table = Map::from_iter([("url".to_owned(), json!(self.url))]);
        let headers = |headers: &BTreeMap<String, String>| (!headers.is_empty()).then(|| json!(headers));
        set(&mut table, "bearer_token_env_var", self.token.as_ref().map(|token| json!(token.variable)));
        set(&mut table, "http_headers", headers(&self.headers));
        set(&mut table, "env_http_headers", headers(&self.env_headers));
        table
    }
}

fn set(table: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        table.insert(key.to_owned(), value);
    }
}

/// Prints the program and the names of the variables only: arguments and values may be secret.
impl fmt::Debug for StdioMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioMcpServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// Prints the URL without credentials, and the names of headers only.
impl fmt::Debug for HttpMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpMcpServer")
            .field("url", &redact_url(&self.url))
            .field("token", &self.token)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("env_headers", &self.env_headers)
            .finish()
    }
}

/// A bearer token for MCP servers. It is passed in an environment variable, so that process lists do not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct McpToken {
    variable: String,
    value: Option<Secret>,
}

impl McpToken {
    /// Generates 256 random bits. Fails if the operating system provides none.
    pub fn generate(variable: impl Into<String>) -> std::io::Result<Self> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Self::new(variable, hex(&bytes)))
    }

    /// Creates a token from a known value.
    pub fn new(variable: impl Into<String>, value: impl Into<String>) -> Self {
        Self { variable: variable.into(), value: Some(value.into().into()) }
    }

    /// Creates a token whose variable is already part of the server's environment.
    pub fn from_env(variable: impl Into<String>) -> Self {
        Self { variable: variable.into(), value: None }
    }

    /// Returns the name of the environment variable.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Returns the value, for the product's MCP servers to compare with; `None` if it comes from the environment.
    pub fn value(&self) -> Option<&str> {
        self.value.as_ref().map(Secret::reveal)
    }
}

/// Prints the variable's name only.
impl fmt::Debug for McpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToken").field("variable", &self.variable).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_its_key_in_the_configuration() {
        let check = |server: McpServer, expected: Value| assert_eq!(Value::from(server.table()), expected);
        check(
            McpServer::stdio("/path/to/server", ["--flag"]),
            json!({ "command": "/path/to/server", "args": ["--flag"] }),
        );
        check(McpServer::http("http://localhost:8080/mcp"), json!({ "url": "http://localhost:8080/mcp" }));
        let stdio = StdioMcpServer::new("server", [""; 0]).env("A", "b").cwd("/srv");
        check(stdio.into(), json!({ "command": "server", "args": [], "env": { "A": "b" }, "cwd": "/srv" }));
        let http = HttpMcpServer::new("http://a")
            .token(&McpToken::from_env("T"))
            .header("X-A", "1")
            .env_header("X-B", "B");
        let server = McpServer::from(http)
            .only_tools(["one", "two"])
            .without_tools(["two"])
            .startup_timeout(Duration::from_millis(1500))
            .tool_timeout(Duration::from_secs(60));
        let expected = json!({
            "url": "http://a", "bearer_token_env_var": "T",
            "http_headers": { "X-A": "1" }, "env_http_headers": { "X-B": "B" },
            "enabled_tools": ["one", "two"], "disabled_tools": ["two"],
            "startup_timeout_sec": 1.5, "tool_timeout_sec": 60.0,
        });
        check(server, expected);
    }

    #[test]
    fn debug_shows_no_secret() {
        let stdio = StdioMcpServer::new("x", ["s3cret"]).env("KEY", "s3cret");
        let token = McpToken::new("TOKEN", "s3cret");
        let http =
            HttpMcpServer::new("https://me:s3cret@host/mcp?token=s3cret").token(&token).header("X", "s3cret");
        let printed = format!("{:?} {:?}", McpServer::from(stdio), McpServer::from(http));
        assert!(!printed.contains("s3cret"), "{printed}");
        assert!(printed.contains("https://host/mcp") && printed.contains("KEY"), "{printed}");
    }

    #[test]
    fn tokens_are_random_and_not_printed() {
        let one = McpToken::generate("T").unwrap();
        let other = McpToken::generate("T").unwrap();
        assert!(one.value().unwrap().len() == 64 && one != other);
        assert_eq!(format!("{one:?}"), "McpToken { variable: \"T\", .. }");
    }
}
