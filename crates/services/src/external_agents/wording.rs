//! Instructions speak to the agent by its name; ours goes by another.

/// What the other agent and its file are called, longest first.
const NAMES: &[(&str, &str)] = &[
    ("claude.md", "AGENTS.md"),
    ("claude code", "Codex"),
    ("claude-code", "Codex"),
    ("claude_code", "Codex"),
    ("claudecode", "Codex"),
    ("claude", "Codex"),
];

/// The text with the other agent's name replaced where it is a name: not within other words, and not in
/// paths, addresses and names of models, which would lead nowhere.
pub(super) fn reworded(text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(letter) = rest.chars().next() {
        let length = match name_at(rest, before) {
            Some((length, name)) => {
                new.push_str(name);
                length
            }
            None => {
                new.push(letter);
                letter.len_utf8()
            }
        };
        let (done, next) = rest.split_at_checked(length).unwrap_or((rest, ""));
        before = done.chars().next_back();
        rest = next;
    }
    new
}

/// The length of the name that a text begins with, and what it becomes.
fn name_at(text: &str, before: Option<char>) -> Option<(usize, &'static str)> {
    if before.is_some_and(is_of_word) {
        return None;
    }
    let (name, new) = NAMES.iter().find(|(name, _)| {
        text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && !text.get(name.len()..).and_then(|rest| rest.chars().next()).is_some_and(is_of_word)
    })?;
    let mut after = text.get(name.len()..).unwrap_or_default().chars();
    let (next, next_but_one) = (after.next(), after.next());
    let is_file = new.ends_with(".md");
    let leads_on = matches!(next, Some('.' | '-')) && next_but_one.is_some_and(is_of_word);
    let is_part =
        matches!(before, Some('.' | '/' | '@' | '-' | '\\')) || matches!(next, Some('/' | '@' | '\\'));
    (is_file || !(is_part || leads_on)).then_some((name.len(), *new))
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_are_names() {
        let check = |text: &str, expected: &str| assert_eq!(reworded(text), expected);
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
