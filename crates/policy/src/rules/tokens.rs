//! Splits rules files into tokens.

use super::error::RuleProblem;

/// A token of the syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleToken {
    Name(String),
    Text(String),
    /// One of `( ) [ ] , =`.
    Mark(char),
}

impl RuleToken {
    pub(super) fn describe(token: Option<&Self>) -> String {
        match token {
            Some(Self::Name(name)) => format!("`{name}`"),
            Some(Self::Text(_)) => "a string".to_owned(),
            Some(Self::Mark(mark)) => format!("`{mark}`"),
            None => "the end of the file".to_owned(),
        }
    }
}

/// Returns the tokens with their lines.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, RuleToken)>, (usize, RuleProblem)> {
    let mut scanner = TokenScanner { rest: text, line: 1 };
    let mut tokens = Vec::new();
    while let Some(c) = scanner.next() {
        let line = scanner.line;
        let token = match c {
            '#' => {
                scanner.rest = scanner.rest.find('\n').and_then(|at| scanner.rest.get(at..)).unwrap_or("");
                continue;
            }
            c if c.is_whitespace() => continue,
            '"' | '\'' => RuleToken::Text(scanner.string(c).map_err(|problem| (line, problem))?),
            '(' | ')' | '[' | ']' | ',' | '=' => RuleToken::Mark(c),
            c if is_name(c) => RuleToken::Name(scanner.name(c)),
            c => return Err((line, RuleProblem::Character(c))),
        };
        tokens.push((line, token));
    }
    Ok(tokens)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct TokenScanner<'a> {
    rest: &'a str,
    line: usize,
}

impl TokenScanner<'_> {
    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn name(&mut self, first: char) -> String {
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        format!("{first}{name}")
    }

    fn string(&mut self, quote: char) -> Result<String, RuleProblem> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some('\n') | None => return Err(RuleProblem::OpenString),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, RuleProblem> {
        match self.next().ok_or(RuleProblem::OpenString)? {
            c @ ('\\' | '"' | '\'') => Ok(c),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'x' => self.code(2, 'x'),
            'u' => self.code(4, 'u'),
            c => Err(RuleProblem::Escape(c)),
        }
    }

    fn code(&mut self, digits: usize, kind: char) -> Result<char, RuleProblem> {
        let digits: Option<String> = (0..digits).map(|_| self.next()).collect();
        let code = digits.and_then(|digits| u32::from_str_radix(&digits, 16).ok());
        code.and_then(char::from_u32).ok_or(RuleProblem::Escape(kind))
    }
}

/// Quotes a string for a rules file.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
