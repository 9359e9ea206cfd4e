//! What a patch says, once read. Paths are as written; nothing here has looked at a file.

use crate::{error::ParseError, parse};

/// A whole patch. Its operations happen in order, and all or none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub operations: Vec<PatchOperation>,
}

impl Patch {
    /// Reads the text between `*** Begin Patch` and `*** End Patch`. Forgives what does not change the
    /// meaning: a heredoc around it, CRLF, blank lines at the ends, a last line without newline.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text)
    }
}

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchOperation {
    /// Every line of the content ends with a newline.
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    /// No sections means that the file only moves.
    Update {
        path: String,
        move_to: Option<String>,
        sections: Vec<PatchSection>,
    },
}

/// Lines that stand together in the file, some of them to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchSection {
    /// Where it begins in the patch, counted from 1.
    pub line: usize,
    /// The texts after `@@`: each is a line to go to first, one after the other.
    pub anchors: Vec<String>,
    pub lines: Vec<PatchLine>,
    /// The lines are the last ones of the file.
    pub at_end: bool,
}

impl PatchSection {
    /// The lines that the file must have.
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
