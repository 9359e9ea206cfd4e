//! `codicil nodes`: the servers that share a database.

use std::{fmt::Write as _, io::Write, process::ExitCode};

use anyhow::Context;
use clap::Args;
use codicil_store_postgres::RegisteredNode;
use serde_json::json;

use crate::{
    args::OverrideArgs,
    database::{DatabaseUrl, chosen_url},
    logging,
    style::without_control_characters,
};

#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The database; by default the one that servers use.
    #[arg(long, value_name = "URL")]
    store: Option<DatabaseUrl>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(overrides: &OverrideArgs, args: &NodesArgs) -> anyhow::Result<ExitCode> {
    logging::init();
    let url = chosen_url(args.store.as_ref(), &overrides.config_store()?);
    let url =
        url.context("no database is configured: use --store, CODICIL_STORE or `[codicil.store] url`")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let nodes = runtime.block_on(async { anyhow::Ok(url.connect().await?.nodes().await?) })?;
    let text = if args.json { as_json(&nodes)? } else { as_text(&nodes) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(nodes: &[RegisteredNode]) -> anyhow::Result<String> {
    let node = |node: &RegisteredNode| {
        json!({
            "name": node.identity.name,
            "run": node.identity.run.to_string(),
            "url": node.url,
            "places": node.places,
            "isUp": !node.remaining.is_zero(),
            "leaseMs": u64::try_from(node.remaining.as_millis()).unwrap_or(u64::MAX),
            "trees": node.trees,
        })
    };
    Ok(serde_json::to_string_pretty(&nodes.iter().map(node).collect::<Vec<_>>())? + "\n")
}

fn as_text(nodes: &[RegisteredNode]) -> String {
    if nodes.is_empty() {
        return "No server is registered.\n".to_owned();
    }
    let mut text = String::new();
    for node in nodes {
        let state = if node.remaining.is_zero() { "gone" } else { "up" };
        let url = if node.url.is_empty() { "-" } else { &node.url };
        let line =
            format!("{}  {state}  {url}  {} threads with their subagents", node.identity.name, node.trees);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", without_control_characters(&line));
    }
    text
}
