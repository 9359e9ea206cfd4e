//! `tool_search`: the model searches for tools that are not on its list.
//!
//! The client marks tools that are seldom needed (`deferLoading`), and MCP servers may have hundreds. Tools that a
//! search finds are on the list from the next request on, for as long as the thread is loaded.

use std::collections::BTreeSet;

use codicil_model::{ToolSpec, joined_name};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult, lenient_number, text_output},
    offer::ToolOffer,
    schema::{function, number, string},
};
use crate::turn_channel::TurnEvent;

/// How many tools a search returns, unless the model gives a limit.
const DEFAULT_LIMIT: u64 = 8;
const MAX_LIMIT: u64 = 40;

pub(super) struct ToolSearch;

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default, deserialize_with = "lenient_number")]
    limit: Option<u64>,
}

impl BuiltinTool for ToolSearch {
    fn name(&self) -> &'static str {
        "tool_search"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if !offer.has_external_tools() || !offer.tool_search || !offer.has_deferred_tools() {
            return None;
        }
        let properties = json!({
            "query": string("Words that say what the tool should do."),
            "limit": number("How many tools to find at most; 8 by default."),
        });
        let description = "Finds further tools, which are not on your list. Those that are found can be called from then \
                           on. Use it when no tool on the list does what is needed.";
        Some(function(self.name(), description, properties, &["query"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(run(turn, call))
    }
}

async fn run(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: SearchArguments = call.arguments()?;
    let Some(offer) = turn.offered().offer.clone() else {
        return Err(ToolError::Failed("there are no further tools".to_owned()));
    };
    let offer = ToolOffer { discovered: turn.thread.discovered_tools(), ..offer };
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let deferred = offer.deferred_tools();
    let best = rank(&arguments.query, &deferred, usize::try_from(limit).unwrap_or(usize::MAX));
    if best.is_empty() {
        return Err(ToolError::Failed("no tool was found; try other words".to_owned()));
    }
    let summaries: Vec<_> = best.iter().map(|tool| summary(tool)).collect();
    let discovered = turn.thread.add_discovered(best.iter().map(|tool| discovered_name(tool)));
    let tools = turn.thread.tools(ToolOffer { discovered, ..offer });
    turn.reporter.report_one(TurnEvent::Offered(tools)).await;
    Ok(text_output(json!({ "tools": summaries }).to_string()))
}

fn summary(tool: &ToolSpec) -> Value {
    match tool {
        ToolSpec::Function { name, description, .. } => json!({ "name": name, "description": description }),
        ToolSpec::Namespace { name, tools, .. } => {
            let mut summary = tools.first().map(summary).unwrap_or_default();
            if let Some(members) = summary.as_object_mut() {
                members.insert("namespace".to_owned(), json!(name));
            }
            summary
        }
        _ => json!({ "name": tool.name(), "description": "" }),
    }
}

/// Returns the name under which a tool counts as discovered.
fn discovered_name(tool: &ToolSpec) -> String {
    match tool {
        ToolSpec::Namespace { name, tools, .. } => {
            joined_name(Some(name), tools.first().map(ToolSpec::name).unwrap_or_default())
        }
        tool => tool.name().to_owned(),
    }
}

/// Returns the tools that match best, best first. A word in a name counts more than one in a description, which counts
/// more than one in the name of an argument. Tools without any of the words are left out.
fn rank<'t>(query: &str, tools: &'t [ToolSpec], limit: usize) -> Vec<&'t ToolSpec> {
    let wanted: BTreeSet<String> = words(query).collect();
    let mut scored: Vec<_> = tools.iter().map(|tool| (score(&wanted, tool), tool)).collect();
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.name().cmp(second.name())));
    scored.into_iter().take(limit).map(|(_, tool)| tool).collect()
}

fn score(wanted: &BTreeSet<String>, tool: &ToolSpec) -> u32 {
    let (name, description, parameters) = match tool {
        ToolSpec::Function { name, description, parameters, .. } => (name, description, parameters),
        // The name and description of the namespace count like a tool's description.
        ToolSpec::Namespace { name, description, tools } => {
            let about: BTreeSet<String> = words(name).chain(words(description)).collect();
            let namespace_score =
                4 * u32::try_from(wanted.intersection(&about).count()).unwrap_or(u32::MAX / 4);
            return tools.iter().map(|tool| score(wanted, tool)).fold(namespace_score, u32::saturating_add);
        }
        _ => return 0,
    };
    let properties = parameters.get("properties").and_then(Value::as_object);
    let arguments: Vec<_> = properties.into_iter().flatten().flat_map(|(name, _)| words(name)).collect();
    let name: Vec<_> = words(name).collect();
    let description: Vec<_> = words(description).collect();
    let in_words = |wanted: &str, found: &[String], whole: u32, part: u32| {
        if found.iter().any(|word| word == wanted) {
            whole
        } else if wanted.len() > 2
            && found.iter().any(|word| word.starts_with(wanted) || is_stem(word, wanted))
        {
            part
        } else {
            0
        }
    };
    let of_word = |wanted: &String| {
        in_words(wanted, &name, 12, 6)
            + in_words(wanted, &description, 4, 2)
            + in_words(wanted, &arguments, 2, 1)
    };
    wanted.iter().map(of_word).sum()
}

/// Whether `wanted` is `word` with an ending, such as `issues` and `issue`.
fn is_stem(word: &str, wanted: &str) -> bool {
    word.len() > 2 && wanted.starts_with(word)
}

/// Splits a text into lower-case words. `readIssue` and `read_issue` are two words each.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut split = String::with_capacity(text.len());
    let mut was_small = false;
    for letter in text.chars() {
        if letter.is_uppercase() && was_small {
            split.push(' ');
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
        split.extend(letter.to_lowercase());
    }
    let words: Vec<String> = split
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, argument: &str) -> ToolSpec {
        ToolSpec::Function {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({ "type": "object", "properties": { argument: {} } }),
            strict: false,
        }
    }

    #[test]
    fn the_best_match_comes_first() {
        let tools = [
            tool("mcp__tracker__createIssue", "Opens a ticket.", "title"),
            tool("mcp__tracker__list", "Lists issues of a project.", "project"),
            tool("weather", "Says how the weather will be.", "city"),
            tool("translate", "Translates a text.", "issue_text"),
        ];
        let check = |query: &str, limit: usize, expected: &[&str]| {
            let found: Vec<_> = rank(query, &tools, limit).iter().map(|tool| tool.name()).collect();
            assert_eq!(found, expected, "{query}");
        };
        check("create an issue", 8, &["mcp__tracker__createIssue", "mcp__tracker__list", "translate"]);
        check("issues", 1, &["mcp__tracker__createIssue"]);
        check("CITY weather", 8, &["weather"]);
        check("banana", 8, &[]);
        check("", 8, &[]);
        check("of a to", 8, &["mcp__tracker__list", "mcp__tracker__createIssue", "translate"]);
    }

    #[test]
    fn names_split_into_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected);
        check("mcp__Git-Hub__readIssue2", &["mcp", "git", "hub", "read", "issue2"]);
        check("HTTPServer", &["httpserver"]);
        check("", &[]);
    }
}
