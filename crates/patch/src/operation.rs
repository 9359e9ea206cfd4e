//! The operations of a parsed patch. Paths are as in the patch; no file has been read yet.

use crate::{error::ParseError, parse};

/// A parsed patch. Its operations are applied in order, all or none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub operations: Vec<PatchOperation>,
}

impl Patch {
    /// Parses the text between `*** Begin Patch` and `*** End Patch`. Tolerates deviations that do not change the meaning:
    /// a heredoc around it, CRLF, blank lines at the ends, a last line without newline.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }
}

/// An operation on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOperation {
    /// A new file. Every line of the content ends with a newline.
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    /// A changed or moved file. Without sections the file only moves.
    Update {
        path: String,
        move_to: Option<String>,
        sections: Vec<PatchSection>,
    },
}

/// Consecutive lines of the file, some of which are changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchSection {
    /// The line of the patch where it begins, counted from 1.
    pub line: usize,
    /// The texts after `@@`: lines of the file that precede the section, in order.
    pub anchors: Vec<String>,
    pub lines: Vec<PatchLine>,
    /// Whether the lines are the last ones of the file.
    pub at_end: bool,
}

impl PatchSection {
    /// Returns the lines that the file must have.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        self.lines.iter().filter_map(PatchLine::old).collect()
    }
}

/// One line of a section, without its mark and its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchLine {
    Keep(String),
    Remove(String),
    Add(String),
}

impl PatchLine {
    fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Add(_) => None,
        }
    }

    pub(crate) fn is_blank_context(&self) -> bool {
        matches!(self, Self::Keep(text) if text.is_empty())
    }
}
