//! Measures app-servers side by side, with the same work and the same model.
//!
//! Each case is run for every server in turn (A B A B …), so that a busy moment of the machine affects all of
//! them. The table shows medians, and the ratio to the best of the other servers.

// Missing members of JSON values read as null; nothing here is indexed by number.
#![allow(clippy::indexing_slicing)]

mod cases;
mod chart;
mod growth;
mod meter;
mod model;
mod server;
mod soak;
mod table;
mod wire;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use codicil_testkit::ModelServer;

use crate::{
    cases::{CASES, Case},
    server::{Bench, ServerSpec},
    soak::SoakArgs,
    table::Table,
};

/// Measures app-servers side by side: the last server is compared with the others.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Args {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// A server, as NAME=PATH of its binary; it is started as `PATH app-server`.
    #[arg(long = "server", value_name = "NAME=PATH", required = true)]
    servers: Vec<ServerSpec>,
    /// Run only the cases whose names begin with this; may be repeated.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Number of runs of each case for each server.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Run with a tenth of the size, to check that the cases work.
    #[arg(long)]
    quick: bool,
    /// An empty PostgreSQL database, for the cases of clusters, which are left out without one.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Measure how costs grow, and write a curve for each to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    growth: Option<PathBuf>,
    /// The directory for homes and workspaces. It must be on a real disk, or writes are not counted.
    #[arg(long, default_value = "target")]
    scratch: PathBuf,
}

#[derive(Subcommand)]
enum BenchCommand {
    Soak(SoakArgs),
    /// Serves the MCP server of the soak.
    #[command(hide = true)]
    McpServer,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    match &args.command {
        Some(BenchCommand::Soak(args)) => soak::run(args).await,
        Some(BenchCommand::McpServer) => soak::serve_mcp(),
        None => measure(&args).await,
    }
}

/// Runs the cases, or measures growth.
async fn measure(args: &Args) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("bench-").tempdir_in(&args.scratch);
    let scratch =
        scratch.with_context(|| format!("cannot create a directory in {}", args.scratch.display()))?;
    let model = ModelServer::start(model::script()).await;
    let bench = Bench::new(scratch.path().canonicalize()?, model.base_url(), args.quick, args.store.clone());
    match &args.growth {
        Some(directory) => growth::draw_curves(&bench, &args.servers, directory).await,
        None => compare(&bench, args).await,
    }
}

/// Runs the cases for all servers and prints the table.
async fn compare(bench: &Bench, args: &Args) -> Result<()> {
    let chosen: Vec<_> = CASES.iter().filter(|case| args.selects(case)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        bail!("no such case; there are {}", names.join(", "));
    }
    let mut table = Table::new(args.servers.iter().map(|spec| spec.name.clone()).collect());
    for case in chosen {
        for round in 1..=args.repetitions {
            for (server, spec) in args.servers.iter().enumerate() {
                eprintln!("{} of {}, {round} of {}", case.name, spec.name, args.repetitions);
                match (case.run)(bench, spec).await {
                    Ok(numbers) => table.add(server, case, &numbers),
                    Err(error) => eprintln!("{} of {} failed: {error:#}", case.name, spec.name),
                }
            }
        }
    }
    print!("{table}");
    Ok(())
}

impl Args {
    fn selects(&self, case: &Case) -> bool {
        if self.cases.is_empty() {
            return self.store.is_some() || !case.name.starts_with("cluster");
        }
        self.cases.iter().any(|name| case.name.starts_with(name.as_str()))
    }
}
