//! The tools of a thread's servers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use codicil_protocol::Tool;
use serde_json::Value;

use crate::{
    apps::{ToolApp, call_meta},
    config::{ApprovalMode, ServerConfig},
    limits::DESCRIPTION_CHARS,
    names::qualify,
    schema::reduce,
    text::cut,
};

/// A tool of a server, ready to be offered.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    /// Name in model requests.
    pub qualified_name: String,
    pub server: String,
    /// The server's own definition; `tool.name` is the name for [`crate::McpCall`].
    pub tool: Tool,
    /// Input schema, reduced to what function tools support.
    pub parameters: Value,
    pub hints: ToolHints,
    pub approval_mode: ApprovalMode,
    /// The app that the tool belongs to, if it is a tool of an account's app.
    pub app: Option<ToolApp>,
}

/// The annotations of a tool; `None` where the server states nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// The tools of all servers of a thread, sorted by their qualified names.
#[derive(Clone, Debug, Default)]
pub struct ToolSet {
    tools: Vec<Arc<McpTool>>,
    by_name: HashMap<String, Arc<McpTool>>,
}

impl ToolHints {
    pub(crate) fn of(tool: &Tool) -> ToolHints {
        let hint = |name: &str| tool.annotations.as_ref()?.get(name)?.as_bool();
        ToolHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }
}

impl McpTool {
    /// Returns the description for the model: the server's description or title.
    pub fn description(&self) -> String {
        let text = self.tool.description.as_deref().or(self.tool.title.as_deref()).unwrap_or_default();
        cut(text, DESCRIPTION_CHARS)
    }

    /// Returns the title for users.
    pub fn title(&self) -> &str {
        let annotated = || self.tool.annotations.as_ref()?.get("title")?.as_str();
        self.tool.title.as_deref().or_else(annotated).unwrap_or(&self.tool.name)
    }

    /// Returns the question whether the tool may run.
    pub fn approval_question(&self) -> String {
        match &self.app {
            Some(app) => format!("Allow {} to run tool \"{}\"?", app.display_name(), self.title()),
            None => format!("Allow the {} MCP server to run tool \"{}\"?", self.server, self.tool.name),
        }
    }

    /// Returns the key of the tool's approval mode in the configuration.
    pub fn approval_key(&self) -> String {
        let (table, owner) = match &self.app {
            Some(app) => ("apps", &app.id),
            None => ("mcp_servers", &self.server),
        };
        format!("{table}.{owner:?}.tools.{:?}.approval_mode", self.tool.name)
    }

    /// Returns the metadata that calls of the tool carry.
    pub fn call_meta(&self) -> Option<Value> {
        self.app.as_ref().and_then(|_| call_meta(&self.tool))
    }
}

impl ToolSet {
    /// Collects the tools that the configuration allows.
    pub(crate) fn new<'a>(
        servers: impl IntoIterator<Item = (&'a str, &'a ServerConfig, &'a [Tool])>,
    ) -> ToolSet {
        let mut offered: Vec<(&str, &ServerConfig, &Tool)> = Vec::new();
        for (server, config, tools) in servers {
            // A tool that a server lists twice is offered once.
            let mut seen: HashSet<&str> = HashSet::new();
            let tools = tools.iter().filter(|tool| config.offers_tool(tool) && seen.insert(&tool.name));
            offered.extend(tools.map(|tool| (server, config, tool)));
        }
        let names: Vec<(&str, &str)> =
            offered.iter().map(|(server, _, tool)| (*server, tool.name.as_str())).collect();
        let mut tools: Vec<Arc<McpTool>> = qualify(&names)
            .into_iter()
            .zip(&offered)
            .map(|(name, (server, config, tool))| Arc::new(entry(name, server, config, tool)))
            .collect();
        tools.sort_by(|left, right| left.qualified_name.cmp(&right.qualified_name));
        // Providers reject a request in which two tools have the same name. A server can choose the name of a tool so that
        // it equals the one that another tool gets with its hash.
        tools.dedup_by(|later, first| later.qualified_name == first.qualified_name);
        let by_name = tools.iter().map(|tool| (tool.qualified_name.clone(), tool.clone())).collect();
        ToolSet { tools, by_name }
    }

    /// Returns the tool with this qualified name.
    pub fn get(&self, qualified_name: &str) -> Option<&Arc<McpTool>> {
        self.by_name.get(qualified_name)
    }

    /// Iterates over the tools, sorted by qualified name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<McpTool>> {
        self.tools.iter()
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

fn entry(qualified_name: String, server: &str, config: &ServerConfig, tool: &Tool) -> McpTool {
    let app = config.apps.as_ref().and_then(|_| ToolApp::of(tool));
    let approval_mode = match (&config.apps, &app) {
        (Some(apps), Some(app)) => apps.approval_mode(app, tool),
        _ => config.approval_mode(&tool.name),
    };
    McpTool {
        qualified_name,
        server: server.to_owned(),
        parameters: reduce(&tool.input_schema),
        hints: ToolHints::of(tool),
        approval_mode,
        app,
        tool: tool.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::ServerTable;

    fn config(text: &str) -> Arc<ServerConfig> {
        let table: toml::Table = text.parse().unwrap();
        ServerTable::of([("s", &table)]).unwrap().get("s").unwrap().clone()
    }

    fn tool(value: Value) -> Tool {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tools_are_filtered_sorted_and_described() {
        let one = config("command = 'x'\nenabled_tools = ['b', 'a']\ntools.a.approval_mode = 'prompt'");
        let two = config("command = 'x'\ndisabled_tools = ['hidden']");
        let plain = |name: &str| tool(json!({ "name": name, "inputSchema": {} }));
        let a = tool(json!({ "name": "a", "title": "Tool A", "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true, "openWorldHint": false } }));
        let tools = ToolSet::new([
            ("zed", &*one, [plain("b"), a, plain("c")].as_slice()),
            ("abc", &*two, [plain("hidden"), plain("x"), plain("x")].as_slice()),
        ]);
        let names: Vec<&str> = tools.iter().map(|tool| tool.qualified_name.as_str()).collect();
        assert_eq!(names, ["mcp__abc__x", "mcp__zed__a", "mcp__zed__b"]);
        let a = tools.get("mcp__zed__a").unwrap();
        assert_eq!((a.description().as_str(), a.title()), ("Tool A", "Tool A"));
        assert_eq!(a.approval_mode, ApprovalMode::Prompt);
        assert_eq!(
            a.hints,
            ToolHints { read_only: Some(true), open_world: Some(false), ..ToolHints::default() }
        );
        assert!(tools.get("mcp__zed__c").is_none());
    }

    #[test]
    fn a_tool_with_the_qualified_name_of_another_is_not_offered() {
        let config = config("command = 'x'");
        let long = "t".repeat(200);
        let [hashed]: [String; 1] = qualify(&[("s", long.as_str())]).try_into().unwrap();
        let forged = hashed.strip_prefix("mcp__s__").unwrap();
        let plain = |name: &str| tool(json!({ "name": name, "inputSchema": {} }));
        let tools = ToolSet::new([("s", &*config, [plain(&long), plain(forged)].as_slice())]);
        let names: Vec<&str> = tools.iter().map(|tool| tool.tool.name.as_str()).collect();
        assert_eq!(names, [long.as_str()]);
        assert_eq!(tools.get(&hashed).unwrap().tool.name, long);
    }
}
