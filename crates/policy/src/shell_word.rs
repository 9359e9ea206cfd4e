//! Removes the quotes from one word of a shell script.
//!
//! Written by hand, because it must refuse every word whose value depends on the shell's state; `shlex`, for example,
//! takes `$x` for text.

/// A word as the shell passes it to the program, if the text alone determines it. A `~` of the user is not expanded: it
/// becomes some path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShellWord {
    pub(crate) text: String,
    /// Whether it has `*`, `?` or `[` outside quotes, so that the shell may replace it by several words.
    pub(crate) expands: bool,
}

impl ShellWord {
    /// Returns `None` for a word that the shell computes: variables, substitutions, braces.
    pub(crate) fn new(source: &str) -> Option<Self> {
        let mut reader = WordReader { rest: source, word: Self { text: String::new(), expands: false } };
        while reader.step()? {}
        Some(reader.word)
    }
}

struct WordReader<'a> {
    rest: &'a str,
    word: ShellWord,
}

impl WordReader<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(c)
    }

    /// Reads one character or one quoted part. Returns `false` at the end, and `None` if the shell computes the word.
    fn step(&mut self) -> Option<bool> {
        let Some(c) = self.next() else { return Some(false) };
        match c {
            '\'' => {
                let (inside, rest) = self.rest.split_once('\'')?;
                self.word.text.push_str(inside);
                self.rest = rest;
            }
            '"' => self.double_quoted()?,
            '\\' => match self.next()? {
                // A shell joins lines first: `$\` and `HOME` on the next line are a variable.
                '\n' => return None,
                c => self.word.text.push(c),
            },
            // `$'…'` and `$"…"` have their own escapes.
            '$' if self.rest.starts_with(['\'', '"']) || is_expansion(self.rest) => return None,
            '{' if is_brace_expansion(self.rest) => return None,
            // The home of another user, or a directory that was visited before.
            '~' if self.word.text.is_empty() && !(self.rest.is_empty() || self.rest.starts_with('/')) => {
                return None;
            }
            // Some shells expand `=ls` to `/bin/ls`.
            '=' if self.word.text.is_empty() && !self.rest.is_empty() => return None,
            '`' | '(' | ')' | '<' | '>' | '&' | '|' | ';' => return None,
            c if c.is_whitespace() => return None,
            '*' | '?' | '[' => {
                self.word.expands = true;
                self.word.text.push(c);
            }
            c => self.word.text.push(c),
        }
        Some(true)
    }

    fn double_quoted(&mut self) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '`' => return None,
                '$' if is_expansion(self.rest) => return None,
                '\\' => match self.next()? {
                    '\n' => return None,
                    c @ ('"' | '\\' | '$' | '`') => self.word.text.push(c),
                    c => self.word.text.extend(['\\', c]),
                },
                c => self.word.text.push(c),
            }
        }
    }
}

/// Returns whether a `$` before this text begins an expansion. Before other text it stands for itself.
fn is_expansion(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || "_{([*@#?$!-".contains(c))
}

/// Returns whether a `{` before this text may begin a brace expansion. `{a,b}` and `{1..3}` become several words; `{}` and
/// `{x}` do not. Looks as far as the last `}`, because `{a},b}` is `a}` and `b`.
fn is_brace_expansion(rest: &str) -> bool {
    rest.rsplit_once('}').is_some_and(|(inside, _)| inside.contains(',') || inside.contains(".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, text: &str) {
        assert_eq!(
            ShellWord::new(source),
            Some(ShellWord { text: text.to_owned(), expands: false }),
            "{source}"
        );
    }

    #[test]
    fn quotes_are_removed() {
        check("plain", "plain");
        check("'a b'", "a b");
        check("\"a b\"", "a b");
        check("--x=\"y z\"'w'", "--x=y zw");
        check("a\\ b", "a b");
        check("it\\'s", "it's");
        check("\"\\$x \\q\"", "$x \\q");
        check("'a\\'", "a\\");
        check("''", "");
        check("'*'\"?\"\\[", "*?[");
        check("{}", "{}");
        check("HEAD@{1}", "HEAD@{1}");
        check("\"foo$\"", "foo$");
        check("a$", "a$");
        check("~/x", "~/x");
        check("~", "~");
        check("HEAD~1", "HEAD~1");
        check("a#b", "a#b");
        check("a=b", "a=b");
        check("=", "=");
    }

    #[test]
    fn computed_words_are_refused() {
        for source in [
            "$x",
            "\"$x\"",
            "${x}",
            "$(date)",
            "\"$(date)\"",
            "`date`",
            "\"`date`\"",
            "$'a'",
            "$\"a\"",
            "{a,b}",
            "a{1..3}",
            "a(b)",
            "a;b",
            "a>b",
            "a b",
            "'open",
            "\"open",
            "end\\",
            "$1",
            "$?",
            "$$",
            "$((1+2))",
            "{a},b}",
            "{x\"}\",y}",
            "a\\\nb",
            "\"a\\\nb\"",
            "$\\\nx",
            "=ls",
            "~root",
            "~-",
            "~+/x",
        ] {
            assert_eq!(ShellWord::new(source), None, "{source}");
        }
    }

    #[test]
    fn patterns_are_marked() {
        for source in ["*.txt", "a?", "[a-z]", "src/**/*.rs"] {
            assert_eq!(ShellWord::new(source), Some(ShellWord { text: source.to_owned(), expands: true }));
        }
    }
}
