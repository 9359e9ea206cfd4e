//! `tool_search`: tools that are not on the list until the model looks for them.
//!
//! Clients bring tools that are seldom needed (`deferLoading`), and MCP servers may have hundreds. Found by words,
//! they are offered like others from the next request on, for as long as the thread is loaded.

use std::collections::BTreeSet;

use codicil_model::{ToolSpec, joined_name};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, number, say},
    offer::ToolOffer,
    specs,
};
use crate::turn_channel::TurnEvent;

/// How many tools an answer names, unless the model says.
const DEFAULT_LIMIT: u64 = 8;
const HIGHEST_LIMIT: u64 = 40;

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
}

/// The tool as the model knows it.
pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "query": specs::string("Words that say what the tool should do."),
        "limit": specs::number("How many tools to find at most; 8 by default."),
    });
    let about = "Finds further tools, which are not on your list. Those that are found can be called from then \
                 on. Use it when no tool on the list does what is needed.";
    specs::function("tool_search", about, properties, &["query"])
}

impl TurnTools {
    pub(super) async fn tool_search(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: SearchArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let Some(offer) = &self.offered().offer else { return Ok(say("there are no further tools")) };
        let offer = ToolOffer { found: self.kit.found(), ..offer.clone() };
        let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, HIGHEST_LIMIT);
        let hidden = offer.hidden(&self.kit.dynamic);
        let best = rank(&arguments.query, &hidden, usize::try_from(limit).unwrap_or(usize::MAX));
        if best.is_empty() {
            return Ok(say("no tool was found; try other words"));
        }
        let told: Vec<_> = best.iter().map(|tool| summary(tool)).collect();
        let found = self.kit.find(best.iter().map(|tool| key(tool)));
        let tools = self.kit.tools(ToolOffer { found, ..offer });
        self.reporter.report_one(TurnEvent::Offered(tools)).await;
        Ok(say(json!({ "tools": told }).to_string()))
    }
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

/// By which a tool is known as found.
fn key(tool: &ToolSpec) -> String {
    match tool {
        ToolSpec::Namespace { name, tools, .. } => {
            joined_name(Some(name), tools.first().map(ToolSpec::name).unwrap_or_default())
        }
        tool => tool.name().to_owned(),
    }
}

/// The tools that fit best, best first. A word in a name counts more than one in a description, and that more
/// than the name of an argument; a tool in which none occurs does not fit.
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
        // What says what the whole is for counts like a description.
        ToolSpec::Namespace { name, description, tools } => {
            let about: BTreeSet<String> = words(name).chain(words(description)).collect();
            let of_all = 4 * u32::try_from(wanted.intersection(&about).count()).unwrap_or(u32::MAX / 4);
            return tools.iter().map(|tool| score(wanted, tool)).fold(of_all, u32::saturating_add);
        }
        _ => return 0,
    };
    let properties = parameters.get("properties").and_then(Value::as_object);
    let arguments = properties.into_iter().flatten().flat_map(|(name, _)| words(name));
    let (name, about): (Vec<_>, Vec<_>) = (words(name).collect(), words(description).collect());
    let arguments: Vec<_> = arguments.collect();
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
        in_words(wanted, &name, 12, 6) + in_words(wanted, &about, 4, 2) + in_words(wanted, &arguments, 2, 1)
    };
    wanted.iter().map(of_word).sum()
}

/// Whether the one is the other with an ending: `issues` and `issue`, `search` and `searching`.
fn is_stem(word: &str, wanted: &str) -> bool {
    word.len() > 2 && wanted.starts_with(word)
}

/// The words of a text in small letters. `readIssue` and `read_issue` are two words each.
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
    fn what_fits_best_comes_first() {
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
    fn names_are_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected);
        check("mcp__Git-Hub__readIssue2", &["mcp", "git", "hub", "read", "issue2"]);
        check("HTTPServer", &["httpserver"]);
        check("", &[]);
    }
}
