//! `codicil store`: looks after the stored threads.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use codicil_config::HomeDirectory;
use codicil_store::{CheckFinding, CheckProgress, CheckReport, Store};
use serde_json::json;

use crate::{
    logging,
    style::{ColorChoice, Palette, without_control_characters},
};

#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read every stored thread, and report what is damaged. Changes nothing; servers may run meanwhile.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The home to check; by default the one that servers use.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    logging::init();
    match args.command {
        StoreCommand::Check(args) => check(args),
    }
}

/// Exits with 1 if something is damaged.
fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let home = match args.home {
        Some(home) => home,
        None => HomeDirectory::from_env()?.path().to_path_buf(),
    };
    let store = Store::open(home)?;
    let shows_progress = std::io::stderr().is_terminal();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(store.check(move |progress| {
        if shows_progress {
            show(progress);
        }
    }))?;
    if shows_progress {
        eprintln!();
    }
    let text =
        if args.json { as_json(&report)? } else { as_text(&report, Palette::of_stdout(ColorChoice::Auto)) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Overwrites one line. A line that cannot be written does not stop the work.
fn show(progress: CheckProgress) {
    let _ = write!(std::io::stderr(), "\r{} of {} files", progress.done, progress.total);
}

fn as_json(report: &CheckReport) -> anyhow::Result<String> {
    let mut value = json!({ "ok": report.is_sound() });
    if let (Some(members), serde_json::Value::Object(rest)) =
        (value.as_object_mut(), serde_json::to_value(report)?)
    {
        members.extend(rest);
    }
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn as_text(report: &CheckReport, palette: Palette) -> String {
    let mut text = String::new();
    for CheckFinding { is_problem, path, line, message, .. } in &report.findings {
        let word = if *is_problem { palette.red("problem") } else { palette.dim("note   ") };
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let message = without_control_characters(message);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word}  {path}{line}  {message}");
    }
    if report.unlisted > 0 {
        let _ = writeln!(text, "… and {} more findings", report.unlisted);
    }
    let CheckReport { threads, records, blobs, index_rows, problems, .. } = report;
    let _ = writeln!(
        text,
        "{threads} threads with {records} records, {blobs} blobs and {index_rows} index rows read"
    );
    let verdict = match problems {
        0 => "Everything is sound.".to_owned(),
        1 => "1 problem was found.".to_owned(),
        more => format!("{more} problems were found."),
    };
    text + &verdict + "\n"
}
