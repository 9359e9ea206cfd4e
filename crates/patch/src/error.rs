//! Why a patch is refused. The model gets the texts, so each says what to do instead.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::{
    files::LARGEST_FILE,
    work::{LARGEST_PATCH, LARGEST_PLAN, MOST_LINES, MOST_OPERATIONS},
};

/// A patch that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid patch, line {line}: {problem}")]
pub struct ParseError {
    /// The line in the original text, counted from 1.
    pub line: usize,
    pub problem: ParseProblem,
}

/// The problem of a line. The strings are the line's text, truncated to a readable length.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseProblem {
    #[error("the patch is longer than {LARGEST_PATCH} bytes; split it into smaller ones")]
    TooLong,
    #[error("the patch changes more than {MOST_OPERATIONS} files; split it into smaller ones")]
    TooManyOperations,
    #[error("the patch must start with `*** Begin Patch`, found `{0}`")]
    NoBegin(String),
    #[error("the patch must end with `*** End Patch`, found `{0}`")]
    NoEnd(String),
    #[error(
        "the patch changes no file; write `*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`"
    )]
    NoOperation,
    #[error("expected `*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`, found `{0}`")]
    NoHeader(String),
    #[error("a path is missing after the colon")]
    NoPath,
    #[error("every line of a new file starts with `+`, found `{0}`")]
    NoPlus(String),
    #[error("`*** Delete File` stands alone, found `{0}` below it")]
    DeleteWithLines(String),
    #[error("`*** Move to:` comes right after `*** Update File:`")]
    MisplacedMove,
    #[error(
        "nothing to change in `{0}`; add an `@@` section with ` `, `-` and `+` lines, or `*** Move to: PATH`"
    )]
    EmptyUpdate(String),
    #[error("the `@@` section has no lines; below it belong lines that start with ` `, `-` or `+`")]
    EmptySection,
    #[error("lines of a section start with ` `, `-` or `+`, a new section with `@@`; found `{0}`")]
    NoMark(String),
    #[error("after `*** End of File` comes a new section or file, found `{0}`")]
    AfterEndOfFile(String),
}

/// A valid patch that does not match the files. Nothing was changed.
#[derive(Debug, Error)]
pub enum PlanError {
    #[error("`{0}` does not exist; to create it use `*** Add File: {0}`")]
    Missing(String),
    #[error("`{0}` is a directory; patches change files only")]
    Directory(String),
    #[error("`{0}` is not a regular file")]
    Special(String),
    #[error("`{0}` is too large to be patched: the limit is {LARGEST_FILE} bytes or {MOST_LINES} lines")]
    TooLarge(String),
    #[error("the files of this patch have more than {LARGEST_PLAN} bytes; split it into smaller patches")]
    TooMuchContent,
    #[error(
        "finding the section at patch line {line} in `{path}` takes too long; give the sections in the order of the file, or split the patch"
    )]
    TooMuchWork { path: String, line: usize },
    #[error(
        "a directory on the path of `{0}` is a symbolic link that leads nowhere or was just created; the file is not read"
    )]
    LinkOnPath(String),
    #[error("cannot move `{from}` to `{to}`: there is a file already; delete it in the same patch first")]
    Occupied { from: String, to: String },
    #[error(
        "`{path}` has no line `{anchor}` for the section at patch line {line}; after `@@` write a line of the file as it is, or nothing{}",
        line_number_hint(.anchor)
    )]
    NoAnchor { path: String, line: usize, anchor: String },
    /// `expected` has the first lines that the section expects.
    #[error(
        "`{path}` does not have these lines in this order (section at patch line {line}); read the file again and copy them as they are:\n{expected}"
    )]
    NoMatch { path: String, line: usize, expected: String },
    #[error(
        "the section at patch line {line} changes lines of `{path}` that an earlier section changes; merge them"
    )]
    Overlap { path: String, line: usize },
    #[error("cannot read `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Returns a hint for models that write line ranges after `@@`, as in unified diffs.
fn line_number_hint(anchor: &str) -> &'static str {
    let looks_like_range = anchor.starts_with('-') && anchor.contains(" +");
    if looks_like_range { " (line numbers mean nothing in this format)" } else { "" }
}

/// Truncates a text for an error.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
