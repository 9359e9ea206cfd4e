//! The result of an import, and how its progress is reported. Presentation is left to the caller.

use std::{error::Error, path::PathBuf};

use super::transfer::{ImportOutcome, ImportedFile};

/// Receives progress while files are imported, one after the other.
pub trait ImportProgress {
    /// Called for a file that could not be imported, before [`Self::file_finished`].
    fn file_failed(&mut self, failed: &FailedFile);

    /// Called after each file, with the result so far.
    fn file_finished(&mut self, report: &ImportReport);
}

#[derive(Debug, Default)]
pub struct ImportReport {
    pub imported: Vec<ImportedFile>,
    pub failed: Vec<FailedFile>,
}

/// A file that could not be imported.
#[derive(Debug)]
pub struct FailedFile {
    pub path: PathBuf,
    /// The error with its causes, in one line.
    pub error: String,
}

impl ImportReport {
    /// Returns how many files were handled, including those that failed.
    pub fn finished(&self) -> usize {
        self.imported.len() + self.failed.len()
    }

    pub fn count(&self, outcome: ImportOutcome) -> usize {
        self.imported.iter().filter(|file| file.outcome == outcome).count()
    }

    /// Returns how many lines of all files could not be parsed.
    pub fn skipped_lines(&self) -> u64 {
        self.imported.iter().map(|file| file.skipped_lines).sum()
    }
}

/// Returns an error and its causes, separated by colons.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
