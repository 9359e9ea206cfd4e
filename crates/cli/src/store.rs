//! `codicil store`: looks after the stored threads.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;

use clap::{Args, Subcommand};
use codicil_config::{ConfigStore, HomeDirectory};
use codicil_store::{CheckFinding, CheckProgress, CheckReport, Store, StoreError, TransferOutcome};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::{
    args::OverrideArgs,
    database::{DatabaseUrl, chosen_url, placed_settings, program_settings},
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
    /// Copy the threads of the home to a PostgreSQL database. Can be repeated; what is there stays.
    Migrate(MigrateArgs),
    /// Copy the threads of a PostgreSQL database to the home, as files. Can be repeated; what is there stays.
    Export(ExportArgs),
}

#[derive(Debug, Args)]
struct MigrateArgs {
    /// The database.
    #[arg(long, value_name = "URL")]
    to: DatabaseUrl,
    #[command(flatten)]
    place: TransferPlace,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The database; by default the one that servers use.
    #[arg(long, value_name = "URL")]
    from: Option<DatabaseUrl>,
    #[command(flatten)]
    place: TransferPlace,
}

#[derive(Debug, Args)]
struct TransferPlace {
    /// The home with the files; by default the one that servers use.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The name of the server (`--node`) that has the workspaces of the threads [default: the host's name].
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The home whose files are checked; by default what servers use is checked, a database or the files of the home.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The database to check.
    #[arg(long, value_name = "URL", conflicts_with = "home")]
    store: Option<DatabaseUrl>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(overrides: &OverrideArgs, args: StoreArgs) -> anyhow::Result<ExitCode> {
    logging::init();
    match args.command {
        StoreCommand::Check(args) => check(overrides, args),
        StoreCommand::Migrate(MigrateArgs { to, place }) => {
            transfer(&to, place, &overrides.config_store()?, Direction::ToDatabase)
        }
        StoreCommand::Export(ExportArgs { from, place }) => {
            let url = chosen_url(from.as_ref(), &overrides.config_store()?);
            let url =
                url.context("no database is configured: use --from, CODICIL_STORE or `[codicil.store] url`")?;
            transfer(&url, place, &overrides.config_store()?, Direction::ToFiles)
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    ToDatabase,
    ToFiles,
}

/// Copies all threads. Exits with 1 if some could not be copied, or are there with other records.
fn transfer(
    url: &DatabaseUrl,
    place: TransferPlace,
    config: &ConfigStore,
    direction: Direction,
) -> anyhow::Result<ExitCode> {
    let home = match place.home {
        Some(home) => home,
        None => HomeDirectory::from_env()?.path().to_path_buf(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let files = Store::open(&home)?;
        let backend = Arc::new(url.join(placed_settings(place.node, config)).await?);
        let database = Store::open_shared(&home, backend)?;
        let copied = match direction {
            Direction::ToDatabase => copy_all(&files, &database).await,
            Direction::ToFiles => copy_all(&database, &files).await,
        };
        database.close().await?;
        files.close().await?;
        copied
    })
}

async fn copy_all(from: &Store, to: &Store) -> anyhow::Result<ExitCode> {
    let threads = from.all_threads().await?;
    let bar = progress_bar("threads");
    bar.set_length(threads.len() as u64);
    let (mut copied, mut present, mut failed) = (0_usize, 0_usize, 0_usize);
    for id in threads {
        match from.copy_thread(&id, to).await {
            Ok(TransferOutcome::Copied) => copied += 1,
            Ok(TransferOutcome::Present) => present += 1,
            Ok(TransferOutcome::Different) => {
                failed += 1;
                bar.suspend(|| {
                    eprintln!("codicil: thread {id} is there with other records, and stays as it is")
                });
            }
            // Deleted meanwhile.
            Err(StoreError::NotFound(_)) => {}
            Err(error @ StoreError::Unavailable(_)) => return Err(error.into()),
            Err(error) => {
                failed += 1;
                bar.suspend(|| eprintln!("codicil: thread {id}: {error}"));
            }
        }
        bar.inc(1);
    }
    from.copy_organization(to).await?;
    bar.finish_and_clear();
    println!("{copied} threads copied, {present} were there already, {failed} were not copied.");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Exits with 1 if something is damaged.
fn check(overrides: &OverrideArgs, args: CheckArgs) -> anyhow::Result<ExitCode> {
    let database = match &args.home {
        Some(_) => None,
        None => chosen_url(args.store.as_ref(), &overrides.config_store()?),
    };
    let home = match args.home {
        Some(home) => home,
        None => HomeDirectory::from_env()?.path().to_path_buf(),
    };
    let what = if database.is_some() { "threads" } else { "files" };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = runtime.block_on(async {
        let store = match &database {
            Some(url) => Store::open_shared(&home, Arc::new(url.open_reader(program_settings(None)).await?))?,
            None => Store::open(&home)?,
        };
        let report = store.check(shown_progress(what)).await;
        if database.is_some() {
            store.close().await?;
        }
        anyhow::Ok(report?)
    })?;
    let palette = Palette::of_stdout(ColorChoice::Auto);
    let text = if args.json { as_json(&report)? } else { as_text(&report, database.is_some(), palette) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns what shows the progress of a check on a terminal.
fn shown_progress(what: &'static str) -> impl FnMut(CheckProgress) + Send + 'static {
    let bar = std::io::stderr().is_terminal().then(|| progress_bar(what));
    move |CheckProgress { done, total }| {
        let Some(bar) = &bar else { return };
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        if done == total {
            bar.finish_and_clear();
        }
    }
}

/// Returns a bar with the time that is left. It is drawn on a terminal only.
fn progress_bar(what: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&format!("{{bar:40}} {{pos}} of {{len}} {what} {{eta_precise}}"));
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
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

fn as_text(report: &CheckReport, is_database: bool, palette: Palette) -> String {
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
    let rows = if is_database { ("list entry", "list entries") } else { ("index row", "index rows") };
    let threads = counted(*threads as u64, ("thread", "threads"));
    let records = counted(*records, ("record", "records"));
    let blobs = counted(*blobs as u64, ("blob", "blobs"));
    let rows = counted(*index_rows as u64, rows);
    let _ = writeln!(text, "{threads} with {records}, {blobs} and {rows} read");
    let verdict = match problems {
        0 => "Everything is sound.".to_owned(),
        1 => "1 problem was found.".to_owned(),
        more => format!("{more} problems were found."),
    };
    text + &verdict + "\n"
}

/// Returns a count with its noun, in the singular or the plural.
fn counted(count: u64, (one, many): (&str, &str)) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
