//! `codicil import`: threads of a codex home, taken over into ours.
//!
//! The source is only read. Each of its files becomes a thread of the same id; run again, only what is new or
//! grew is brought over. What went on here stays as it is.

mod convert;
mod head;
mod items;
mod mark;
mod outputs;
mod report;
mod rollout;
mod source;
mod transfer;
mod typed;

use std::{
    env,
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use codicil_config::HomeDirectory;
use codicil_store::Store;

use self::{
    report::{ImportReport, ProgressDisplay},
    source::ImportSource,
    transfer::FileTransfer,
};

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A home of codex, or one of its rollout files [default: $CODEX_HOME, else ~/.codex].
    #[arg(value_name = "PATH")]
    from: Option<PathBuf>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Exits with 1 when some of the files could not be taken over.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    crate::logging::init();
    let home = HomeDirectory::from_env()?;
    let from = match &args.from {
        Some(path) => path.clone(),
        None => usual_place()?,
    };
    let source = ImportSource::open(&std::path::absolute(from)?)?;
    check_apart(&source.root, home.path())?;
    let _only = if args.dry_run { None } else { Some(only_one(&home)?) };
    let store = Store::open(home.path().to_path_buf())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(transfer_all(&store, &source, args.dry_run))?;
    match args.json {
        true => println!("{}", report.as_json(&source, home.path())?),
        false => print!("{}", report.as_text(&source, home.path())),
    }
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn transfer_all(store: &Store, source: &ImportSource, dry_run: bool) -> anyhow::Result<ImportReport> {
    let mut report = ImportReport::new(dry_run);
    let progress = ProgressDisplay::over(source.files.len());
    for file in &source.files {
        let transfer = FileTransfer { store, file, names: &source.names, dry_run };
        let result = transfer.run().await;
        if let Err(error) = &result {
            progress.say(&format!("{}: {error:#}", file.path.display()));
        }
        report.add(file, result);
        progress.step(&report);
    }
    progress.finish();
    store.close().await?;
    Ok(report)
}

fn usual_place() -> anyhow::Result<PathBuf> {
    let named = env::var_os("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let usual = || env::home_dir().map(|home| home.join(".codex"));
    named.or_else(usual).context("there is no home directory: name the home of codex")
}

/// A thread keeps its id, and with it the name of its file: both cannot be in one home.
fn check_apart(source: &Path, home: &Path) -> anyhow::Result<()> {
    let same = match (source.canonicalize(), home.canonicalize()) {
        (Ok(source), Ok(home)) => source == home,
        _ => source == home,
    };
    if same {
        bail!(
            "{} is the home of codicil too, and a thread cannot be there twice: set CODICIL_HOME to another \
             directory",
            home.display()
        );
    }
    Ok(())
}

/// One import at a time. The lock goes with the process.
fn only_one(home: &HomeDirectory) -> anyhow::Result<File> {
    home.ensure().context("cannot make the home")?;
    let path = home.path().join(".import.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = lock.with_context(|| format!("cannot open {}", path.display()))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another import into {} is running", home.path().display()),
        // Some file systems have no locks; there, it is up to the person.
        _ => Ok(lock),
    }
}
