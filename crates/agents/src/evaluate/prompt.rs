//! Prompts: sections of text, and the tools that go with them.

use std::collections::BTreeSet;

use super::{
    config::ConfigError,
    expansion::{OPEN_SECTIONS, open_sections},
    tool::Tool,
};
use crate::{mcp_servers::McpServer, workspace::Workspace};

/// A prompt: sections, which are rendered as markdown, and tools.
///
/// ```
/// use codicil_agents::evaluate::{Prompt, Section};
///
/// let prompt = Prompt::new("demo/summarise")
///     .section(Section::new("Task", "List the files in the repository and summarise."))
///     .section(Section::new("House rules", "… pages of rules …").summary("Rules for names and comments."));
/// assert_eq!(prompt.name(), "demo/summarise");
/// ```
#[derive(Clone, Debug)]
pub struct Prompt {
    name: String,
    sections: Vec<Section>,
    tools: Vec<Tool>,
}

impl Prompt {
    /// Creates a prompt without sections. The name appears in events and identifies the prompt in a session.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sections: Vec::new(), tools: Vec::new() }
    }

    /// Creates a prompt that consists of this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new("text").section(Section::new("", text))
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Adds a section that describes a workspace.
    pub fn workspace(self, workspace: &Workspace) -> Self {
        self.section(Section::new("Workspace", workspace.summary()))
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renders the prompt with these sections open.
    pub(super) fn render(&self, open: &BTreeSet<String>) -> String {
        let rendered = self.sections.iter().map(|section| section.render(open.contains(&section.key)));
        rendered.collect::<Vec<_>>().join("\n\n")
    }

    /// Renders sections that the model has asked for, as a further message of its thread.
    pub(super) fn render_sections(&self, wanted: &BTreeSet<String>) -> String {
        let sections = self.sections.iter().filter(|section| wanted.contains(&section.key));
        let sections: Vec<_> = sections.map(|section| section.render(true)).collect();
        if sections.is_empty() {
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            return format!("The prompt has no section {}. Continue without it.", wanted.join(", "));
        }
        format!(
            "The sections of the prompt that you asked for, in full:\n\n{}\n\n\
             Continue with the task. Do not repeat what you have already done.",
            sections.join("\n\n")
        )
    }

    /// Returns the tools, with the one that opens sections if any is summarised. They are the same whichever sections
    /// are open, so that a thread can be continued.
    pub(super) fn tools(&self) -> Vec<Tool> {
        let summarised = self.sections.iter().filter(|section| section.summary.is_some());
        let keys: Vec<_> = summarised.map(|section| section.key.clone()).collect();
        let opener = (!keys.is_empty()).then(|| open_sections(&self.name, keys));
        self.tools.iter().cloned().chain(opener).collect()
    }

    /// Checks names that the server or the model could not distinguish.
    pub(super) fn check<'s>(
        &self,
        servers: impl Iterator<Item = (&'s String, &'s McpServer)>,
    ) -> Result<(), ConfigError> {
        let mut keys = BTreeSet::new();
        for section in self.sections.iter().filter(|section| section.summary.is_some()) {
            if !keys.insert(&section.key) {
                return Err(ConfigError::DuplicateSection(section.key.clone()));
            }
        }
        let servers: BTreeSet<_> = servers.map(|(name, _)| name.as_str()).collect();
        let mut names = BTreeSet::new();
        for tool in &self.tools {
            let name = tool.name();
            let is_mcp = name == "mcp" || name.starts_with("mcp__") || servers.contains(name);
            if name.trim() != name || name.is_empty() || name == OPEN_SECTIONS || is_mcp {
                return Err(ConfigError::ToolName(name.to_owned()));
            }
            if !names.insert(name) {
                return Err(ConfigError::DuplicateTool(name.to_owned()));
            }
            if !tool.has_object_params() {
                return Err(ConfigError::ToolParams(name.to_owned()));
            }
        }
        Ok(())
    }
}

/// A section of a prompt: a title and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    title: String,
    key: String,
    body: String,
    summary: Option<String>,
}

impl Section {
    /// Creates a section that is always shown in full. A section with an empty title has no heading.
    pub fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        let title = title.into();
        let key = title.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase();
        Self { title, key, body: body.into(), summary: None }
    }

    /// Sets the key that opens the section; by default the title in lower case, with `_` for spaces.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// Shows this summary in place of the body until the model opens the section.
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    fn render(&self, is_open: bool) -> String {
        let heading = if self.title.is_empty() { String::new() } else { format!("## {}\n\n", self.title) };
        match &self.summary {
            Some(summary) if !is_open => {
                let hint =
                    format!("(In short. The tool `open_sections` shows section `{}` in full.)", self.key);
                format!("{heading}{}\n\n{hint}", summary.trim())
            }
            _ => format!("{heading}{}", self.body.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::tool::ToolContext;

    #[test]
    fn sections_are_markdown_and_summaries_explain_how_to_open_them() {
        let prompt = Prompt::new("p")
            .section(Section::new("Task", "Do it.\n"))
            .section(Section::new("House rules", "Long.").summary("Short."));
        let closed = prompt.render(&BTreeSet::new());
        let hint = "(In short. The tool `open_sections` shows section `house_rules` in full.)";
        assert_eq!(closed, format!("## Task\n\nDo it.\n\n## House rules\n\nShort.\n\n{hint}"));
        let rules = BTreeSet::from(["house_rules".to_owned()]);
        assert_eq!(prompt.render(&rules), "## Task\n\nDo it.\n\n## House rules\n\nLong.");
        assert_eq!(prompt.tools().len(), 1);
        assert_eq!(Prompt::text("Hello").render(&BTreeSet::new()), "Hello");
        let more = prompt.render_sections(&rules);
        assert!(more.contains("## House rules\n\nLong.") && !more.contains("Do it."), "{more}");
        let none = prompt.render_sections(&BTreeSet::from(["other".to_owned()]));
        assert_eq!(none, "The prompt has no section other. Continue without it.");
    }

    #[test]
    fn ambiguous_tools_and_sections_are_refused() {
        let tool = |name: &str| Tool::new(name, "", |_: (), _: ToolContext| async { Ok("") });
        let list = Tool::new("list", "", |_: Vec<u8>, _: ToolContext| async { Ok("") });
        let server = ("files".to_owned(), McpServer::http("http://localhost"));
        let check = |prompt: Prompt, expected: Option<&str>| {
            let found =
                prompt.check([(&server.0, &server.1)].into_iter()).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), expected);
        };
        check(Prompt::new("p").tool(tool("a")).tool(tool("b")), None);
        check(Prompt::new("p").tool(tool("a")).tool(tool("a")), Some("two tools are named \"a\""));
        check(
            Prompt::new("p").tool(tool("mcp__files__read")),
            Some("a tool cannot be named \"mcp__files__read\""),
        );
        check(Prompt::new("p").tool(tool("files")), Some("a tool cannot be named \"files\""));
        check(Prompt::new("p").tool(tool(" a")), Some("a tool cannot be named \" a\""));
        check(Prompt::new("p").tool(list), Some("the parameters of tool \"list\" are not an object"));
        let section = |key: &str| Section::new("S", "b").key(key).summary("s");
        check(
            Prompt::new("p").section(section("k")).section(section("k")),
            Some("two sections have the key \"k\""),
        );
    }
}
