//! `codicil import`: imports the threads of a codex home.
//!
//! The import itself is `codicil_migrate::codex`; this module parses the arguments, shows progress and prints
//! the result.

use std::{
    env,
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use codicil_migrate::codex::{
    FailedFile, ImportMode, ImportOutcome, ImportProgress, ImportReport, ImportSource, ImportedFile,
    import_threads,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::{args::OverrideArgs, database::OwnServerArgs};

/// Time between progress lines when standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of errors listed in the summary. Each error is also printed when it happens.
const MAX_LISTED_ERRORS: usize = 20;

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A home of codex, or one of its rollout files [default: $CODEX_HOME, else ~/.codex].
    #[arg(value_name = "PATH")]
    from: Option<PathBuf>,
    /// Print what would be imported, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: OwnServerArgs,
}

/// Runs the import. Exits with 1 if a file could not be imported.
pub fn run(overrides: &OverrideArgs, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    crate::logging::init();
    let config = overrides.config_store()?;
    let home = config.home();
    let from = match &args.from {
        Some(path) => path.clone(),
        None => default_codex_home()?,
    };
    let source = ImportSource::open(&std::path::absolute(from)?)?;
    let mode = if args.dry_run { ImportMode::DryRun } else { ImportMode::Write };
    let mut progress = ProgressDisplay::new(source.files.len());
    // The import blocks the main thread. The lease in a database is renewed on another one.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(async {
        let store = args.database.open_store(&config).await?;
        let report = import_threads(&source, home, &store, mode, &mut progress).await;
        store.close().await?;
        anyhow::Ok(report?)
    });
    progress.finish();
    let report = report?;
    let is_shared = args.database.chosen_url(&config).is_some();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&report, &source, home.path(), mode))?);
    } else {
        let target = if is_shared { "the database".to_owned() } else { home.path().display().to_string() };
        print!("{}", as_text(&report, &source, &target, mode));
    }
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn default_codex_home() -> anyhow::Result<PathBuf> {
    let configured = env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let default = || env::home_dir().map(|home| home.join(".codex"));
    configured.or_else(default).context("there is no home directory: name the home of codex")
}

fn as_json(report: &ImportReport, source: &ImportSource, home: &Path, mode: ImportMode) -> Value {
    let thread = |file: &ImportedFile| {
        json!({
            "id": file.thread,
            "file": file.path.display().to_string(),
            "outcome": outcome_name(file.outcome),
            "skippedLines": file.skipped_lines,
        })
    };
    let error =
        |failed: &FailedFile| json!({ "file": failed.path.display().to_string(), "error": failed.error });
    json!({
        "source": source.root,
        "home": home,
        "dryRun": mode == ImportMode::DryRun,
        "files": source.files.len(),
        "imported": report.count(ImportOutcome::Imported),
        "updated": report.count(ImportOutcome::Updated),
        "unchanged": report.count(ImportOutcome::Unchanged),
        "kept": report.count(ImportOutcome::Kept),
        "failed": report.failed.len(),
        "skippedLines": report.skipped_lines(),
        "threads": report.imported.iter().map(thread).collect::<Vec<_>>(),
        "errors": report.failed.iter().map(error).collect::<Vec<_>>(),
    })
}

fn outcome_name(outcome: ImportOutcome) -> &'static str {
    match outcome {
        ImportOutcome::Imported => "imported",
        ImportOutcome::Updated => "updated",
        ImportOutcome::Unchanged => "unchanged",
        ImportOutcome::Kept => "kept",
    }
}

fn as_text(report: &ImportReport, source: &ImportSource, target: &str, mode: ImportMode) -> String {
    let mut text = String::new();
    let verb = match mode {
        ImportMode::DryRun => "Would import",
        ImportMode::Write => "Imported",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{verb} from {} to {target}", source.root.display());
    let rows = [
        (report.count(ImportOutcome::Imported), "new"),
        (report.count(ImportOutcome::Updated), "updated: grown, renamed or archived since the last import"),
        (report.count(ImportOutcome::Unchanged), "unchanged"),
        (report.count(ImportOutcome::Kept), "kept: continued here, or not imported from this file"),
        (report.failed.len(), "failed"),
    ];
    for (count, label) in rows.iter().filter(|(count, label)| *count > 0 || *label == "new") {
        let _ = writeln!(text, "{count:>7}  {label}");
    }
    if report.skipped_lines() > 0 {
        let _ = writeln!(text, "{:>7}  lines could not be read and were skipped", report.skipped_lines());
    }
    for failed in report.failed.iter().take(MAX_LISTED_ERRORS) {
        let _ = writeln!(text, "failed: {}: {}", failed.path.display(), failed.error);
    }
    text
}

/// A bar on a terminal, a line every few seconds elsewhere; always on standard error.
struct ProgressDisplay {
    bar: Option<ProgressBar>,
    total: usize,
    last_line: Instant,
}

impl ProgressDisplay {
    fn new(total: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos} of {len} files, {msg} {eta_precise}");
            ProgressBar::new(total as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, total, last_line: Instant::now() }
    }

    /// Prints a line above the bar. A line that cannot be written does not stop the import.
    fn print_line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl ImportProgress for ProgressDisplay {
    fn file_failed(&mut self, failed: &FailedFile) {
        self.print_line(&format!("{}: {}", failed.path.display(), failed.error));
    }

    fn file_finished(&mut self, report: &ImportReport) {
        let finished = report.finished();
        let failed = report.failed.len();
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{failed} failed"));
                bar.set_position(finished as u64);
            }
            None if self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                self.print_line(&format!("{finished} of {} files, {failed} failed", self.total));
            }
            None => {}
        }
    }
}
