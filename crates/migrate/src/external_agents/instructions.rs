//! Copies the standing instructions: `CLAUDE.md` becomes `AGENTS.md`.
//!
//! Instructions address the agent by name, so [`rename_agent`] replaces the name, here and in skills.

use std::path::{Path, PathBuf};

use super::{
    ImportError,
    config_place::{ConfigPlace, read, write},
};

/// Names of the other agent and its file with their replacements, longest first.
const NAMES: &[(&str, &str)] = &[
    ("claude.md", "AGENTS.md"),
    ("claude code", "Codex"),
    ("claude-code", "Codex"),
    ("claude_code", "Codex"),
    ("claudecode", "Codex"),
    ("claude", "Codex"),
];

/// Returns the file to copy: the first that has text, if the destination has none.
pub(super) fn source(place: &ConfigPlace) -> Result<Option<PathBuf>, ImportError> {
    if has_text(&place.instructions_file())? {
        return Ok(None);
    }
    for source in place.instruction_sources() {
        if has_text(&source)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

fn has_text(path: &Path) -> Result<bool, ImportError> {
    Ok(read(path)?.is_some_and(|text| !text.trim().is_empty()))
}

pub(super) fn import(place: &ConfigPlace) -> Result<(), ImportError> {
    let Some(source) = source(place)? else { return Ok(()) };
    match read(&source)? {
        Some(text) => write(&place.instructions_file(), &rename_agent(&text)),
        None => Ok(()),
    }
}

/// Replaces the name of the other agent where it stands for the agent: not within other words, and not in
/// paths, URLs and names of models, which would become invalid.
pub(super) fn rename_agent(text: &str) -> String {
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(letter) = rest.chars().next() {
        let length = match name_at(rest, before) {
            Some((length, name)) => {
                renamed.push_str(name);
                length
            }
            None => {
                renamed.push(letter);
                letter.len_utf8()
            }
        };
        let (done, next) = rest.split_at_checked(length).unwrap_or((rest, ""));
        before = done.chars().next_back();
        rest = next;
    }
    renamed
}

/// Returns the length of the name that a text begins with, and its replacement.
fn name_at(text: &str, before: Option<char>) -> Option<(usize, &'static str)> {
    if before.is_some_and(is_word_character) {
        return None;
    }
    let (name, renamed) = NAMES.iter().find(|(name, _)| {
        text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && !text.get(name.len()..).and_then(|rest| rest.chars().next()).is_some_and(is_word_character)
    })?;
    let mut after = text.get(name.len()..).unwrap_or_default().chars();
    let next = after.next();
    let next_but_one = after.next();
    let is_file = renamed.ends_with(".md");
    let continues = matches!(next, Some('.' | '-')) && next_but_one.is_some_and(is_word_character);
    let is_part =
        matches!(before, Some('.' | '/' | '@' | '-' | '\\')) || matches!(next, Some('/' | '@' | '\\'));
    (is_file || !(is_part || continues)).then_some((name.len(), *renamed))
}

fn is_word_character(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_agent_are_replaced() {
        let check = |text: &str, expected: &str| assert_eq!(rename_agent(text), expected);
        check("Rules for Claude Code, claude-code and CLAUDE.", "Rules for Codex, Codex and Codex.");
        check("See docs/CLAUDE.md; “Claude’s” \"claude\"", "See docs/AGENTS.md; “Codex’s” \"Codex\"");
        check("CLAUDE_CODE ClaudeCode claude   code", "Codex Codex Codex   code");
        check("xclaude claudex claude2 été_claude", "xclaude claudex claude2 été_claude");
        check(
            "~/.claude/settings claude.ai claude-opus-4 me@claude",
            "~/.claude/settings claude.ai claude-opus-4 me@claude",
        );
        check("", "");
    }
}
