//! Errors in rules files.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error in a rules file. Its text begins with the file and, if there is one, the line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {problem}", location(file, *line))]
pub struct RulesError {
    pub file: PathBuf,
    /// The line, counted from 1, or 0 for the file as a whole.
    pub line: usize,
    problem: RuleProblem,
}

impl RulesError {
    pub(super) fn new(file: &Path, line: usize, problem: RuleProblem) -> Self {
        Self { file: file.to_owned(), line, problem }
    }
}

fn location(file: &Path, line: usize) -> String {
    if line == 0 { file.display().to_string() } else { format!("{}:{line}", file.display()) }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum RuleProblem {
    #[error("cannot be read: {0}")]
    Io(String),
    #[error("unexpected `{0}`")]
    Character(char),
    #[error("the string is not closed")]
    OpenString,
    #[error("unknown escape `\\{0}` in a string")]
    Escape(char),
    #[error("expected {expected}, found {found}")]
    Unexpected { expected: &'static str, found: String },
    #[error("unknown function `{0}`; there is `prefix_rule(pattern=[...], decision=\"...\")`")]
    Function(String),
    #[error("unknown argument `{0}`")]
    Argument(String),
    #[error("argument `{0}` is given twice")]
    Twice(String),
    #[error("argument `{0}` is missing")]
    Missing(&'static str),
    #[error("`pattern` is a list of words, or of lists of words to choose from, and not empty")]
    Pattern,
    #[error("`{0}` is a list of examples, each a string or a list of words")]
    Examples(&'static str),
    #[error("`{0}` is a string")]
    Text(&'static str),
    #[error("unknown decision `{0}`; there are `allow`, `prompt` and `forbidden`")]
    Decision(String),
    #[error("`{0}` is not the name or the address of one host")]
    Host(String),
    #[error("unknown protocol `{0}`; there are `http`, `https`, `socks5_tcp` and `socks5_udp`")]
    Protocol(String),
    #[error("the rule does not match its own example `{0}`")]
    NoMatch(String),
    #[error("the rule matches `{0}`, which is listed in `not_match`")]
    Match(String),
}
