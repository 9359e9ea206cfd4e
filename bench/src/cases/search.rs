//! Fuzzy file search.

use std::{fs, path::Path, time::Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    meter::median,
    server::{Bench, ServerSpec},
    table::{Number, Target},
};

const FILES_PER_FOLDER: usize = 100;

pub async fn search(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let root = bench.directory("tree")?;
    create_tree(Path::new(&root), bench.size(1_000))?;
    let (_server, mut wire) = bench.start(spec).await?;
    let mut times = Vec::new();
    for round in 0..5 {
        // A different query each time, so that only the file list can be cached.
        let params =
            json!({ "query": format!("module7file{round}"), "roots": [root], "cancellationToken": null });
        let started_at = Instant::now();
        let found = wire.call("fuzzyFileSearch", params).await?;
        times.push(started_at.elapsed().as_secs_f64() * 1e3);
        ensure!(found["files"].as_array().is_some_and(|files| !files.is_empty()), "nothing was found");
    }
    // The first search has no cache, as when a user opens the search.
    let first = times.first().copied().unwrap_or(f64::NAN);
    Ok(vec![
        Number::new("fuzzy search one-shot, 100,000 files, first", "ms", Target::Fraction(1.0 / 3.0), first),
        Number::new(
            "fuzzy search one-shot, 100,000 files, p50",
            "ms",
            Target::Fraction(1.0 / 3.0),
            median(&mut times),
        ),
    ])
}

/// Creates the tree once for all servers.
fn create_tree(root: &Path, folders: usize) -> Result<()> {
    for folder in 0..folders {
        let path = root.join(format!("area{}/module{folder}", folder % 20));
        if path.is_dir() {
            continue;
        }
        fs::create_dir_all(&path)?;
        for file in 0..FILES_PER_FOLDER {
            fs::write(path.join(format!("file{file}.rs")), "")?;
        }
    }
    Ok(())
}
