//! What an import tells: how far it is, and in the end what it did.

use std::{
    cell::Cell,
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{
    source::{ImportSource, RolloutFile},
    transfer::{ImportOutcome, ImportedFile},
};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How many errors are listed in the end; all of them were said when they happened.
const LISTED_ERRORS: usize = 20;

impl ImportOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }
}

/// What became of each file.
pub struct ImportReport {
    dry_run: bool,
    done: Vec<(String, ImportedFile)>,
    errors: Vec<(String, String)>,
}

impl ImportReport {
    pub fn new(dry_run: bool) -> Self {
        Self { dry_run, done: Vec::new(), errors: Vec::new() }
    }

    pub fn add(&mut self, file: &RolloutFile, result: anyhow::Result<ImportedFile>) {
        let path = file.path.display().to_string();
        match result {
            Ok(done) => self.done.push((path, done)),
            Err(error) => self.errors.push((path, format!("{error:#}"))),
        }
    }

    pub fn failed(&self) -> usize {
        self.errors.len()
    }

    fn count(&self, outcome: ImportOutcome) -> usize {
        self.done.iter().filter(|(_, done)| done.outcome == outcome).count()
    }

    fn skipped(&self) -> u64 {
        self.done.iter().map(|(_, done)| done.skipped).sum()
    }

    pub fn as_json(&self, source: &ImportSource, home: &Path) -> serde_json::Result<String> {
        let thread = |(path, done): &(String, ImportedFile)| json!({ "id": done.thread, "file": path, "outcome": done.outcome.name(), "skippedLines": done.skipped });
        let error = |(path, error): &(String, String)| json!({ "file": path, "error": error });
        serde_json::to_string_pretty(&json!({
            "source": source.root,
            "home": home,
            "dryRun": self.dry_run,
            "files": source.files.len(),
            "imported": self.count(ImportOutcome::Imported),
            "updated": self.count(ImportOutcome::Updated),
            "unchanged": self.count(ImportOutcome::Unchanged),
            "kept": self.count(ImportOutcome::Kept),
            "failed": self.failed(),
            "skippedLines": self.skipped(),
            "threads": self.done.iter().map(thread).collect::<Vec<_>>(),
            "errors": self.errors.iter().map(error).collect::<Vec<_>>(),
        }))
    }

    pub fn as_text(&self, source: &ImportSource, home: &Path) -> String {
        let mut text = String::new();
        let verb = if self.dry_run { "Would import" } else { "Imported" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{verb} from {} to {}", source.root.display(), home.display());
        let rows = [
            (self.count(ImportOutcome::Imported), "new"),
            (self.count(ImportOutcome::Updated), "grown, named or archived since"),
            (self.count(ImportOutcome::Unchanged), "unchanged"),
            (self.count(ImportOutcome::Kept), "left as they are here: they went on, or were here before"),
            (self.failed(), "failed"),
        ];
        for (count, what) in rows.iter().filter(|(count, what)| *count > 0 || *what == "new") {
            let _ = writeln!(text, "{count:>7}  {what}");
        }
        if self.skipped() > 0 {
            let _ = writeln!(text, "{:>7}  lines could not be read and were left out", self.skipped());
        }
        for (path, error) in self.errors.iter().take(LISTED_ERRORS) {
            let _ = writeln!(text, "failed: {path}: {error}");
        }
        text
    }
}

/// A bar on a terminal, a line now and then elsewhere; to standard error either way.
pub struct ProgressDisplay {
    bar: Option<ProgressBar>,
    total: usize,
    said: Cell<Instant>,
}

impl ProgressDisplay {
    pub fn over(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos} of {len} files, {msg} {eta_precise}");
            ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, total, said: Cell::new(Instant::now()) }
    }

    pub fn step(&self, report: &ImportReport) {
        let (done, failed) = (report.done.len() + report.errors.len(), report.failed());
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{failed} failed"));
                bar.set_position(done as u64);
            }
            None if self.said.get().elapsed() >= LINE_EVERY => {
                self.said.set(Instant::now());
                self.say(&format!("{done} of {} files, {failed} failed", self.total));
            }
            None => {}
        }
    }

    /// A line of its own. A lost line is no reason to stop.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
