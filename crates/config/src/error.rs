//! Errors in a configuration and their locations.
//!
//! A problem in a file has a path, line, column and key; a problem in a value from the command line or a request has a key.
//! Messages never contain values that may be secrets, see [`ConfigProblem::of`].

use std::path::{Path, PathBuf};

use codicil_protocol::{ConfigWarningNotification, TextPosition, TextRange};

/// The reason why the configuration cannot be used. In error responses the server prefixes it with
/// `failed to load configuration: `.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error("no home directory: set CODICIL_HOME")]
    NoHome,
    #[error("failed to read {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{0}")]
    InFile(FileProblem),
    /// A problem in a `-c` flag, a request, or the merged layers.
    #[error("{0}")]
    Value(ConfigProblem),
    #[error("invalid override `{flag}`: {reason}")]
    Override { flag: String, reason: String },
    #[error("config profile `{0}` not found")]
    UnknownProfile(String),
    #[error("unknown feature flag: {0}")]
    UnknownFeature(String),
}

impl ConfigError {
    pub(crate) fn unreadable(path: &Path, reason: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Returns the warning that clients receive after `initialize`, while the server uses defaults.
    pub fn to_warning(&self) -> ConfigWarningNotification {
        let (path, range) = match self {
            Self::InFile(problem) => (Some(&problem.path), Some(problem.range.clone())),
            Self::Unreadable { path, .. } => (Some(path), None),
            _ => (None, None),
        };
        ConfigWarningNotification {
            summary: "The configuration is not usable; defaults apply until it is corrected.".to_owned(),
            details: Some(self.to_string()),
            path: path.map(|path| path.display().to_string()),
            range,
        }
    }
}

/// A problem and its key, if known.
///
/// Formatted like the errors of the TOML parser (`reason`, then ``in `key` `` on its own line), which clients parse.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigProblem {
    pub reason: String,
    pub key: Option<String>,
}

impl ConfigProblem {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), key: Some(key.into()) }
    }

    /// Converts an error of the TOML parser. Removes quoted text if the key may contain a secret.
    pub(crate) fn of(error: &toml::de::Error) -> Self {
        let mut bare = error.clone();
        bare.set_input(None);
        let whole = bare.to_string();
        let key = whole
            .strip_prefix(error.message())
            .and_then(|rest| rest.trim_start().strip_prefix("in `"))
            .and_then(|rest| rest.trim_end().strip_suffix('`'))
            .map(str::to_owned);
        let reason = match &key {
            Some(key) if may_be_secret(key) => without_quoted_text(error.message()),
            _ => error.message().to_owned(),
        };
        Self { reason, key }
    }
}

impl std::fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.key {
            Some(key) => writeln!(f, "{}\nin `{key}`", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// A problem and its location in a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}:{}: {problem}", path.display(), range.start.line, range.start.column)]
pub struct FileProblem {
    pub path: PathBuf,
    pub range: TextRange,
    pub problem: ConfigProblem,
}

impl FileProblem {
    pub(crate) fn new(
        path: &Path,
        text: &str,
        span: Option<std::ops::Range<usize>>,
        problem: ConfigProblem,
    ) -> Self {
        let span = span.unwrap_or(0..0);
        let range = TextRange { start: position(text, span.start), end: position(text, span.end) };
        Self { path: path.to_owned(), range, problem }
    }
}

/// Returns the line and column of an offset. Both count from 1; columns are characters.
fn position(text: &str, offset: usize) -> TextPosition {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    let line = before.matches('\n').count() + 1;
    TextPosition { line: line as u64, column: column as u64 }
}

/// Key parts under which configurations contain credentials.
const SECRET_PARTS: [&str; 11] = [
    "env",
    "headers",
    "http_headers",
    "set",
    "query_params",
    "token",
    "bearer_token",
    "experimental_bearer_token",
    "api_key",
    "password",
    "secret",
];

pub(crate) fn may_be_secret(key: &str) -> bool {
    key.split('.').any(|part| SECRET_PARTS.contains(&part))
}

/// Removes the text from ``invalid type: string "…", expected``.
fn without_quoted_text(message: &str) -> String {
    match (message.find("string \""), message.rfind("\", expected")) {
        (Some(start), Some(end)) if start < end => {
            let head = message.get(..start).unwrap_or_default();
            let tail = message.get(end + 1..).unwrap_or_default();
            format!("{head}a string{tail}")
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let at = |offset| {
            let TextPosition { line, column } = position("ä = 1\nbc\n", offset);
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(3), (1, 3));
        assert_eq!(at(7), (2, 1));
        assert_eq!(at(8), (2, 2));
        assert_eq!(at(99), (3, 1));
    }

    #[test]
    fn possible_secrets_are_removed_from_messages() {
        let message = "invalid type: string \"sk-\\\"canary\", expected a map";
        assert_eq!(without_quoted_text(message), "invalid type: a string, expected a map");
        assert!(may_be_secret("mcp_servers.x.env.TOKEN"));
        assert!(!may_be_secret("model"));
    }
}
