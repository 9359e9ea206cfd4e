//! Finds patches in shell commands: models call `apply_patch` as if it were a program.
//!
//! Only a command that consists of a patch is taken for one; every other command stays a command. The few forms are parsed
//! by hand, because a shell grammar would accept far more than is intended here.

use std::path::Path;

const PROGRAMS: [&str; 2] = ["apply_patch", "applypatch"];
const SHELLS: [&str; 5] = ["bash", "sh", "zsh", "dash", "ksh"];

/// A patch in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchInvocation {
    /// The directory of `cd DIR &&`, relative to the command's own working directory.
    pub workdir: Option<String>,
    /// The text for [`Patch::parse`](crate::Patch::parse).
    pub patch: String,
}

/// Recognises `["apply_patch", PATCH]`, and shells that run `apply_patch <<'EOF'`, `apply_patch 'PATCH'`, or one of them
/// after `cd DIR &&`.
pub fn find_in_command(argv: &[String]) -> Option<PatchInvocation> {
    match argv {
        [program, patch] if PROGRAMS.contains(&program.as_str()) => {
            Some(PatchInvocation { workdir: None, patch: patch.clone() })
        }
        [shell, flags, script] if is_shell(shell) && is_script_flag(flags) => find_in_script(script),
        _ => None,
    }
}

fn is_shell(program: &str) -> bool {
    let name = Path::new(program).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| SHELLS.contains(&name))
}

fn is_script_flag(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc" | "-cl")
}

fn find_in_script(script: &str) -> Option<PatchInvocation> {
    let script = script.trim();
    let (workdir, rest) = match script.strip_prefix("cd").filter(|rest| rest.starts_with([' ', '\t'])) {
        Some(rest) => {
            let (directory, rest) = word(rest.trim_start_matches([' ', '\t']))?;
            (Some(directory), blank(rest).strip_prefix("&&")?.trim_start())
        }
        None => (None, script),
    };
    let rest = PROGRAMS.iter().find_map(|program| rest.strip_prefix(program))?;
    let patch = heredoc(rest).or_else(|| argument(rest))?;
    Some(PatchInvocation { workdir, patch })
}

/// Returns the text of a heredoc: `<<'EOF'`, the lines up to `EOF`, and nothing after it.
fn heredoc(rest: &str) -> Option<String> {
    let (opener, body) = rest.split_once('\n')?;
    let delimiter = delimiter(opener.trim())?;
    let body = body.trim_end();
    let (patch, last) = body.rsplit_once('\n')?;
    // With the delimiter inside, the heredoc would end there for a shell, and more commands would follow.
    let ends_early = patch.lines().any(|line| line.trim_end() == delimiter);
    (last.trim() == delimiter && !ends_early).then(|| patch.to_owned())
}

/// Returns `EOF` for `<<EOF`, `<<'EOF'`, `<<"EOF"` and `<<-EOF`, with or without the program's name before it.
pub(crate) fn heredoc_delimiter(line: &str) -> Option<&str> {
    let line = line.trim();
    delimiter(PROGRAMS.iter().find_map(|program| line.strip_prefix(program)).unwrap_or(line).trim_start())
}

fn delimiter(opener: &str) -> Option<&str> {
    let text = opener.strip_prefix("<<")?;
    let text = text.strip_prefix('-').unwrap_or(text).trim_start();
    let quoted = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let delimiter = quoted.unwrap_or(text);
    let is_name = !delimiter.is_empty() && delimiter.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(delimiter)
}

/// Returns a quoted argument that has nothing after it.
fn argument(rest: &str) -> Option<String> {
    let text = rest.strip_prefix([' ', '\t'])?.trim_start_matches([' ', '\t']);
    let (patch, after) = word(text)?;
    (text.starts_with(['\'', '"']) && after.trim().is_empty()).then_some(patch)
}

/// Returns one word of a shell command without its quotes, and the text after it. `None` for words that the shell computes.
fn word(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        match chars.next() {
            Some('\'') => {
                let (inside, after) = chars.as_str().split_once('\'')?;
                out.push_str(inside);
                rest = after;
            }
            Some('"') => rest = double_quoted(chars.as_str(), &mut out)?,
            Some('\\') => {
                out.push(chars.next()?);
                rest = chars.as_str();
            }
            Some(c) if is_word(c) => {
                out.push(c);
                rest = chars.as_str();
            }
            Some(c) if !c.is_whitespace() && c != '&' => return None,
            _ if rest.len() == text.len() => return None,
            _ => return Some((out, rest)),
        }
    }
}

fn double_quoted<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(chars.as_str()),
            '$' | '`' => return None,
            '\\' => match chars.next()? {
                '\n' => {}
                c @ ('"' | '\\' | '$' | '`') => out.push(c),
                c => out.extend(['\\', c]),
            },
            c => out.push(c),
        }
    }
}

/// Returns whether a character stands for itself outside quotes.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "/._-+,:@%=".contains(c)
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str, expected: Option<(Option<&str>, &str)>) {
        let argv = ["/bin/bash", "-lc", script].map(str::to_owned);
        let expected = expected.map(|(workdir, patch)| PatchInvocation {
            workdir: workdir.map(str::to_owned),
            patch: patch.to_owned(),
        });
        assert_eq!(find_in_command(&argv), expected, "{script:?}");
    }

    #[test]
    fn a_script_that_is_a_patch_and_nothing_else() {
        check("apply_patch <<'EOF'\nP\nQ\nEOF", Some((None, "P\nQ")));
        check("apply_patch <<'EOF'\nP\nEOF\n", Some((None, "P")));
        check("applypatch <<EOF\nP\nEOF", Some((None, "P")));
        check("apply_patch<<\"END_1\"\nP\nEND_1\n\n", Some((None, "P")));
        check("  apply_patch <<-'EOF'  \nP\n\tEOF", Some((None, "P")));
        check("cd sub && apply_patch <<'EOF'\nP\nEOF", Some((Some("sub"), "P")));
        check("cd '/a b/c' && apply_patch <<'EOF'\nP\nEOF", Some((Some("/a b/c"), "P")));
        check("cd \"a b\"&&\napply_patch <<'EOF'\nP\nEOF", Some((Some("a b"), "P")));
        check("cd a\\ b && apply_patch 'P\nQ'", Some((Some("a b"), "P\nQ")));
        check("apply_patch \"P \\\"x\\\" \\$y\"", Some((None, "P \"x\" $y")));
    }

    #[test]
    fn anything_more_is_a_command() {
        check("apply_patch", None);
        check("apply_patch patch.txt", None);
        check("apply_patch <<'EOF'\nP\nEOF\nls", None);
        check("apply_patch <<'EOF'\nP\nEOF\nls\nEOF", None);
        check("apply_patch <<'EOF' && ls\nP\nEOF", None);
        check("apply_patch <<'EOF'\nP", None);
        check("ls && apply_patch <<'EOF'\nP\nEOF", None);
        check("cd a; apply_patch <<'EOF'\nP\nEOF", None);
        check("cd $HOME && apply_patch <<'EOF'\nP\nEOF", None);
        check("cd && apply_patch <<'EOF'\nP\nEOF", None);
        check("apply_patch \"$(cat p)\"", None);
        check("apply_patch 'P' > log", None);
        check("apply_patchy <<'EOF'\nP\nEOF", None);
        check("echo apply_patch <<'EOF'\nP\nEOF", None);
        check("", None);
    }

    #[test]
    fn the_program_called_without_a_shell() {
        let argv = ["apply_patch", "P"].map(str::to_owned);
        assert_eq!(find_in_command(&argv), Some(PatchInvocation { workdir: None, patch: "P".to_owned() }));
        assert_eq!(find_in_command(&["apply_patch".to_owned()]), None);
        let python = ["python3", "-c", "apply_patch 'P'"].map(str::to_owned);
        assert_eq!(find_in_command(&python), None);
    }
}
