//! Works with one server for a long time and checks that it stays as small as it was.
//!
//! Clients start threads, run turns of every kind, kill children of the server and connect again, all over
//! websockets. The server's memory, descriptors, threads, children and disk are sampled meanwhile. The result is a
//! table, a CSV file, a picture, and an error if one of them grew.

mod chart;
mod client;
mod mcp_server;
mod processes;
mod samples;
mod script;
mod verdict;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use codicil_testkit::ModelServer;
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

pub use self::mcp_server::serve as serve_mcp;
use self::{
    client::{SoakClient, SoakTarget, WorkCount},
    samples::{ResourceCurve, ResourceSample},
};
use crate::server::{Bench, Server, ServerSpec};

/// Number of samples in a run, however long it is.
const SAMPLES: u32 = 60;

/// Works with one server for a long time; fails if its memory, descriptors, processes or disk grow.
#[derive(Args)]
pub struct SoakArgs {
    /// The server, as NAME=PATH of its binary.
    #[arg(long, value_name = "NAME=PATH")]
    server: ServerSpec,
    /// How long to work.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Number of clients that work at the same time.
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Pause of each client between its turns, in milliseconds.
    #[arg(long, default_value_t = 200)]
    pause: u64,
    /// The directory for `soak.csv` and `soak.svg`.
    #[arg(long, default_value = "target")]
    out: PathBuf,
    /// The directory for the home and the workspace.
    #[arg(long, default_value = "target")]
    scratch: PathBuf,
}

pub async fn run(args: &SoakArgs) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("soak-").tempdir_in(&args.scratch);
    let scratch =
        scratch.with_context(|| format!("cannot create a directory in {}", args.scratch.display()))?;
    let model = ModelServer::start(script::script()).await;
    let bench = Bench::new(scratch.path().canonicalize()?, model.base_url(), false, None);
    let home = soak_home(&bench)?;
    let (server, port) = bench.listen_in(&args.server, &home).await?;
    let workspace = bench.workspace()?;
    let target =
        SoakTarget { port, server: server.pid(), workspace, pause: Duration::from_millis(args.pause) };
    let count = Arc::new(WorkCount::default());

    let mut clients = JoinSet::new();
    for _ in 0..args.clients {
        clients.spawn(SoakClient::new(target.clone(), count.clone()).work());
    }
    let curve = sample(args, &server, &home, &count).await;
    clients.shutdown().await;
    let curve = curve?;
    write_files(&args.out, &curve)?;
    println!("{count}");
    let grown = verdict::print(&curve.samples);
    ensure!(count.errors().is_empty(), "work failed:\n{}", count.errors().join("\n"));
    ensure!(grown.is_empty(), "not flat: {}", grown.join(", "));
    Ok(())
}

/// Creates a home whose threads are unloaded soon, with an MCP server of this program.
fn soak_home(bench: &Bench) -> Result<PathBuf> {
    let home = bench.home()?;
    let program = std::env::current_exe()?;
    let program = Value::from(program.to_str().context("the path of this program is not UTF-8")?);
    let tables = format!(
        "\n[mcp_servers.soak]\ncommand = {program}\nargs = [\"mcp-server\"]\n\
         [mcp_servers.soak.tools.echo]\napproval_mode = \"approve\"\n\n\
         [codicil.deadlines]\nidle_thread = 5000\n"
    );
    OpenOptions::new().append(true).open(home.join("config.toml"))?.write_all(tables.as_bytes())?;
    Ok(home)
}

/// Takes samples until the time is over, and shows each.
async fn sample(args: &SoakArgs, server: &Server, home: &Path, count: &WorkCount) -> Result<ResourceCurve> {
    let whole = Duration::from_secs_f64(args.minutes * 60.0);
    let started_at = Instant::now();
    let mut samples = Vec::new();
    println!("{}", samples::HEADER);
    for number in 1..=SAMPLES {
        let due = started_at + whole * number / SAMPLES;
        sleep(due.saturating_duration_since(Instant::now())).await;
        let sample = ResourceSample::take(server.pid(), home, started_at.elapsed(), count.turns());
        let sample = sample.with_context(|| format!("no sample of {}", args.server.name))?;
        println!("{sample}");
        samples.push(sample);
    }
    Ok(ResourceCurve { clients: args.clients, samples })
}

fn write_files(folder: &Path, curve: &ResourceCurve) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("soak.csv"), curve.csv())?;
    fs::write(folder.join("soak.svg"), chart::svg(curve))?;
    Ok(())
}
