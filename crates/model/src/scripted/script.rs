//! Script files: parsing, and choosing the reply to a request.

use std::path::Path;

use regex_lite::Regex;
use serde::Deserialize;
use toml::Value;

use super::{situation::ScriptSituation, step::ScriptStep};

const BUILTIN: &str = include_str!("builtin.toml");

/// A script: a TOML or JSON file with a list of replies.
///
/// ```toml
/// pace_ms = 20                     # wait between the words of a text; 0 if left out
///
/// [[reply]]
/// when = { user = "tidy" }         # the user's last text contains it, whatever the case
/// steps = [
///     { think = "A small job." },
///     { say = "Let me look." },
///     { run = "ls -la" },          # with the offered shell tool
/// ]
///
/// [[reply]]
/// when = { output = "/\\.tmp$/" }   # the last tool output matches the expression between slashes
/// steps = [
///     { call = "exec_command", args = { cmd = "rm *.tmp" } },
///     { patch = "*** Begin Patch\n*** Delete File: a.tmp\n*** End Patch" },
/// ]
///
/// [[reply]]                        # replies without `when` are a sequence: the first answers the
/// steps = [{ say = "Done." }]      # first request of a thread, the second the second, and so on
/// ```
///
/// `when` may also have `step` (the number of replies in this turn so far) and `tools` (whether the request
/// offers any). All given conditions must hold, and the first matching reply is used. A reply that calls a
/// tool and has neither `step` nor `output` matches only the first request of a turn, so that it cannot
/// repeat for ever. Steps are `think`, `say`, `run`, `patch`, `call` (with `args`, or `input` for a tool that
/// takes free text), `delay_ms`, `usage = { input, cached, output, reasoning }` and `fail`: one of `"cut"`,
/// `"stall"`, `{ status, message, retry_after }`, `{ code, message }`. Texts may contain `{user}` and
/// `{output}`.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) pace_ms: u64,
    pub(super) replies: Vec<ScriptedReply>,
}

#[derive(Clone, Debug)]
pub(super) struct ScriptedReply {
    /// `None` for a reply of the sequence.
    when: Option<ReplyCondition>,
    pub steps: Vec<ScriptStep>,
}

#[derive(Clone, Debug, Default)]
struct ReplyCondition {
    user: Option<TextPattern>,
    output: Option<TextPattern>,
    step: Option<usize>,
    tools: Option<bool>,
}

/// Reasons why a script is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScriptError {
    #[error("failed to read script {path}: {cause}")]
    Read { path: String, cause: String },
    #[error("invalid script: {0}")]
    Syntax(String),
    #[error("invalid script: reply {reply}: {problem}")]
    Reply { reply: usize, problem: String },
}

impl Script {
    /// Returns the built-in script: it runs a command, writes a note and sums up.
    pub fn builtin() -> Self {
        Self::parse(BUILTIN).expect("a test reads the built-in script")
    }

    /// Reads a script file. Blocks.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|error| ScriptError::Read {
            path: path.display().to_string(),
            cause: error.to_string(),
        })?;
        Self::parse(&text)
    }

    /// Parses a script from TOML, or from JSON if it begins with a brace.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let file: RawScript = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| ScriptError::Syntax(error.to_string()))?
        } else {
            toml::from_str(text).map_err(|error| ScriptError::Syntax(error.to_string()))?
        };
        let replies = file.reply.into_iter().enumerate().map(|(at, reply)| {
            reply.build().map_err(|problem| ScriptError::Reply { reply: at + 1, problem })
        });
        Ok(Self { pace_ms: file.pace_ms, replies: replies.collect::<Result<_, _>>()? })
    }

    /// Returns the reply to a request in this situation.
    pub(super) fn choose(&self, situation: &ScriptSituation) -> Option<&ScriptedReply> {
        let rule = self.replies.iter().find(|reply| reply.matches(situation));
        rule.or_else(|| {
            self.replies.iter().filter(|reply| reply.when.is_none()).nth(situation.replies_in_thread)
        })
    }
}

impl ScriptedReply {
    fn matches(&self, situation: &ScriptSituation) -> bool {
        let Some(when) = &self.when else { return false };
        let first_only =
            when.step.is_none() && when.output.is_none() && self.steps.iter().any(ScriptStep::is_tool_call);
        let step = when.step.or(first_only.then_some(0));
        when.user.as_ref().is_none_or(|pattern| pattern.matches(&situation.user))
            && when
                .output
                .as_ref()
                .is_none_or(|pattern| situation.output.as_ref().is_some_and(|output| pattern.matches(output)))
            && step.is_none_or(|step| step == situation.replies_in_turn)
            && when.tools.is_none_or(|tools| tools == situation.has_tools)
    }
}

/// A substring or a regular expression.
#[derive(Clone, Debug)]
enum TextPattern {
    Text(String),
    Expression(Regex),
}

impl TextPattern {
    fn new(text: &str) -> Result<Self, String> {
        let expression = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        match expression {
            Some(expression) => Regex::new(expression)
                .map(Self::Expression)
                .map_err(|error| format!("invalid expression {text}: {error}")),
            None => Ok(Self::Text(text.to_lowercase())),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Text(part) => text.to_lowercase().contains(part),
            Self::Expression(expression) => expression.is_match(text),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    #[serde(default)]
    pace_ms: u64,
    #[serde(default)]
    reply: Vec<ReplyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyEntry {
    when: Option<WhenEntry>,
    #[serde(default)]
    steps: Vec<toml::map::Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhenEntry {
    user: Option<String>,
    output: Option<String>,
    step: Option<usize>,
    tools: Option<bool>,
}

impl ReplyEntry {
    fn build(self) -> Result<ScriptedReply, String> {
        let when = self.when.map(WhenEntry::build).transpose()?;
        let steps = self.steps.into_iter().map(ScriptStep::from_table).collect::<Result<_, _>>()?;
        Ok(ScriptedReply { when, steps })
    }
}

impl WhenEntry {
    fn build(self) -> Result<ReplyCondition, String> {
        let pattern = |text: Option<String>| text.map(|text| TextPattern::new(&text)).transpose();
        Ok(ReplyCondition {
            user: pattern(self.user)?,
            output: pattern(self.output)?,
            step: self.step,
            tools: self.tools,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_script_is_valid() {
        assert!(Script::builtin().replies.len() > 3);
    }

    #[test]
    fn toml_and_json_are_equivalent() {
        let toml = "[[reply]]\nwhen = { user = 'a' }\nsteps = [{ say = 'b' }]";
        let json = r#"{"reply": [{"when": {"user": "a"}, "steps": [{"say": "b"}]}]}"#;
        let shown = |text| format!("{:?}", Script::parse(text).unwrap());
        assert_eq!(shown(toml), shown(json));
    }

    #[test]
    fn errors_name_the_mistake() {
        let check = |text: &str, expected: &str| {
            let error = Script::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("[[reply]]\nsteps = [{ sya = 'x' }]", "reply 1: unknown key in a step: sya");
        check("[[reply]]\nsteps = [{ say = 'x', think = 'y' }]", "reply 1: a step does one thing");
        check("[[reply]]\nsteps = [{ args = {} }]", "reply 1: a step does one thing");
        check("[[reply]]\nsteps = [{ fail = 'often' }]", "reply 1: unknown failure: often");
        check("[[reply]]\nwhen = { user = '/(/' }\nsteps = []", "reply 1: invalid expression /(/");
        check("[[replies]]", "unknown field");
    }

    #[test]
    fn a_reply_with_a_call_does_not_answer_its_own_output() {
        let script = Script::parse(
            "[[reply]]\nwhen = { user = 'go' }\nsteps = [{ run = 'ls' }]\n[[reply]]\nwhen = {}\nsteps = []",
        )
        .unwrap();
        let mut situation =
            ScriptSituation { user: "Go on".into(), has_tools: true, ..ScriptSituation::default() };
        assert!(script.choose(&situation).unwrap().steps.iter().any(ScriptStep::is_tool_call));
        situation.replies_in_turn = 1;
        assert!(script.choose(&situation).unwrap().steps.is_empty());
    }

    #[test]
    fn replies_without_conditions_are_used_in_order() {
        let script =
            Script::parse("[[reply]]\nsteps = [{ say = '1' }]\n[[reply]]\nsteps = [{ say = '2' }]").unwrap();
        let said = |replies_in_thread| {
            let situation = ScriptSituation { replies_in_thread, ..ScriptSituation::default() };
            script.choose(&situation).map(|reply| format!("{:?}", reply.steps))
        };
        assert_eq!(said(0).as_deref(), Some(r#"[Say("1")]"#));
        assert_eq!(said(1).as_deref(), Some(r#"[Say("2")]"#));
        assert_eq!(said(2), None);
    }
}
