//! Key paths: `profiles.work.model`, `projects."/some/dir".trust_level`.
//!
//! Parts are separated by dots; a quoted part is one key, whatever it contains. Unquoted parts can contain any other character,
//! so `mcp_servers.my server.url` needs no quotes.

use std::fmt;

/// The keys from the root of the configuration to a value. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<String>);

/// The reason why a text is not a key path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyPathError {
    /// The text is the reference server's; clients match on it.
    #[error("keyPath must not be empty")]
    Empty,
    #[error("keyPath has an empty part: {0}")]
    EmptyPart(String),
    #[error("keyPath has a quote that is not closed: {0}")]
    OpenQuote(String),
    #[error("keyPath has text after a quoted part: {0}")]
    AfterQuote(String),
    #[error("keyPath has an escape that TOML does not know: {0}")]
    Escape(String),
}

impl KeyPath {
    /// Returns a path of literal keys, without interpreting dots or quotes; `None` if there are no keys.
    pub fn from_keys<K: Into<String>>(keys: impl IntoIterator<Item = K>) -> Option<Self> {
        let keys: Vec<_> = keys.into_iter().map(Into::into).collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    pub fn parse(text: &str) -> Result<Self, KeyPathError> {
        if text.trim().is_empty() {
            return Err(KeyPathError::Empty);
        }
        let mut keys = Vec::new();
        let mut rest = text.trim();
        loop {
            let (key, after) = match rest.chars().next() {
                Some(quote @ ('"' | '\'')) => quoted(text, rest, quote)?,
                _ => bare(text, rest)?,
            };
            keys.push(key);
            match after {
                Some(after) => rest = after,
                None => return Ok(Self(keys)),
            }
        }
    }

    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// Returns the parent keys and the last key.
    pub fn split_last(&self) -> (&[String], &str) {
        match self.0.split_last() {
            Some((last, parents)) => (parents, last),
            None => (&[], ""),
        }
    }
}

/// Formats the keys joined by dots and without quotes, as in origins and error messages.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Reads a part up to the next dot. Returns it and the text after the dot.
fn bare<'t>(whole: &str, text: &'t str) -> Result<(String, Option<&'t str>), KeyPathError> {
    let (part, after) = match text.split_once('.') {
        Some((part, after)) => (part, Some(after)),
        None => (text, None),
    };
    match part.trim() {
        "" => Err(KeyPathError::EmptyPart(whole.to_owned())),
        part => Ok((part.to_owned(), after)),
    }
}

/// Reads a quoted part like TOML. Returns it and the text after the following dot.
fn quoted<'t>(whole: &str, text: &'t str, quote: char) -> Result<(String, Option<&'t str>), KeyPathError> {
    let end = closing_quote(text, quote).ok_or_else(|| KeyPathError::OpenQuote(whole.to_owned()))?;
    let (literal, after) = text.split_at(end + 1);
    let key = match literal.parse::<toml::Value>() {
        Ok(toml::Value::String(key)) => key,
        _ => return Err(KeyPathError::Escape(whole.to_owned())),
    };
    match after.trim_start() {
        "" => Ok((key, None)),
        after => match after.strip_prefix('.') {
            Some(after) => Ok((key, Some(after.trim_start()))),
            None => Err(KeyPathError::AfterQuote(whole.to_owned())),
        },
    }
}

/// Returns the position of the closing quote. Backslashes escape in double quotes only.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if character == quote => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(KeyPath::parse(text).unwrap().keys(), expected, "{text}");
    }

    #[test]
    fn parts_are_separated_by_dots_outside_quotes() {
        check("model", &["model"]);
        check(" profiles.work.model ", &["profiles", "work", "model"]);
        check(r#"projects."/some/dir".trust_level"#, &["projects", "/some/dir", "trust_level"]);
        check("plugins.'a@b.c'.enabled", &["plugins", "a@b.c", "enabled"]);
        check(r#"a."say \"hi\" \u00e4".b"#, &["a", "say \"hi\" ä", "b"]);
        check(r"a.'back\slash'.b", &["a", r"back\slash", "b"]);
        check("mcp_servers.my server.url", &["mcp_servers", "my server", "url"]);
        check("a.\"\"", &["a", ""]);
        check(r#"dir"with"quotes.b"#, &["dir\"with\"quotes", "b"]);
    }

    #[test]
    fn invalid_paths_are_rejected() {
        let fails = |text: &str| KeyPath::parse(text).unwrap_err();
        assert_eq!(fails("  "), KeyPathError::Empty);
        assert_eq!(fails("a..b"), KeyPathError::EmptyPart("a..b".into()));
        assert_eq!(fails("a."), KeyPathError::EmptyPart("a.".into()));
        assert_eq!(fails("a.\"b"), KeyPathError::OpenQuote("a.\"b".into()));
        assert_eq!(fails("\"a\"b"), KeyPathError::AfterQuote("\"a\"b".into()));
        assert_eq!(fails(r#""\q""#), KeyPathError::Escape(r#""\q""#.into()));
    }
}
