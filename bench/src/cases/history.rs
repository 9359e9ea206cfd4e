//! Stored threads: lists, searches, and resuming a long thread.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    meter::median,
    model,
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{Wire, text},
};

pub async fn history(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let lists = stored_threads(bench, spec, bench.size(10_000)).await?;
    Ok(vec![
        Number::new("`thread/list` page, 10,000 threads", "ms", Target::Fraction(1.0 / 30.0), lists.page_ms),
        Number::new("`thread/list` search", "ms", Target::Fraction(1.0 / 10.0), lists.search_ms),
    ])
}

/// Lists of stored threads.
pub struct StoredThreads {
    pub page_ms: f64,
    pub search_ms: f64,
}

/// Measures lists of many threads, which are copies of one that the server has written.
pub async fn stored_threads(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<StoredThreads> {
    let home = bench.home()?;
    let (server, mut wire) = bench.start_in(spec, &home).await?;
    let thread = wire.start_thread(&bench.workspace()?).await?;
    wire.turn(&text(&thread, "id"), "needle-00000 please").await?;
    server.end(wire).await?;
    multiply(&home, &thread, count)?;

    let (_server, mut wire) = bench.start_in(spec, &home).await?;
    // Some servers index threads only when they have work.
    let other = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&other, "index please").await?;
    let needle = json!({ "limit": 25, "searchTerm": format!("needle-{:05}", count / 2) });
    until_found(&mut wire, &needle).await?;
    let page_ms = median_request_ms(&mut wire, "thread/list", json!({ "limit": 25 }), 20).await?;
    let search_ms = median_request_ms(&mut wire, "thread/list", needle, 10).await?;
    fs::remove_dir_all(&home)?;
    Ok(StoredThreads { page_ms, search_ms })
}

pub async fn resume(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let turns = bench.size(2_000);
    let home = bench.home()?;
    let (server, mut wire) = bench.start_in(spec, &home).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    for _ in 0..turns {
        wire.turn(&thread, model::HELLO).await?;
    }
    server.end(wire).await?;

    let mut times = Vec::new();
    for _ in 0..3 {
        let (_server, mut wire) = bench.start_in(spec, &home).await?;
        let started_at = Instant::now();
        let id = wire.post("thread/resume", json!({ "threadId": thread })).await?;
        // The clock stops when the answer has arrived. Parsing it is not part of the measurement.
        let answer = wire.until(|message| {
            (message.answers() == Some(id)).then(|| (started_at.elapsed(), message.result()))
        });
        let (time, resumed) = answer.await?;
        times.push(time.as_secs_f64() * 1e3);
        let found = resumed?["thread"]["turns"].as_array().map_or(0, Vec::len);
        ensure!(found == turns, "resumed {found} of {turns} turns");
    }
    Ok(vec![Number::new("resume of 2,000 turns", "ms", Target::Fraction(1.0 / 15.0), median(&mut times))])
}

/// Copies the file of a thread under new ids, and deletes the index.
fn multiply(home: &Path, thread: &Value, count: usize) -> Result<()> {
    let id = text(thread, "id");
    let path = PathBuf::from(text(thread, "path"));
    let body = fs::read_to_string(&path).context("the server does not report the file of a thread")?;
    let name = path.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
    for number in 1..count {
        let new = Uuid::now_v7().to_string();
        let body = body.replace(&id, &new).replace("needle-00000", &format!("needle-{number:05}"));
        fs::write(path.with_file_name(name.replace(&id, &new)), body)?;
    }
    for entry in fs::read_dir(home)? {
        let entry = entry?.path();
        if entry.to_string_lossy().contains(".sqlite") || entry.to_string_lossy().contains(".db") {
            fs::remove_file(entry)?;
        }
    }
    Ok(())
}

/// Waits until a search finds exactly one thread: then the index is complete.
async fn until_found(wire: &mut Wire, needle: &Value) -> Result<()> {
    let started_at = Instant::now();
    while started_at.elapsed().as_secs() < 300 {
        let page = wire.call("thread/list", needle.clone()).await?;
        if page["data"].as_array().is_some_and(|data| data.len() == 1) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    anyhow::bail!("the search does not find the thread")
}

/// Returns the median time of a request, in milliseconds.
pub async fn median_request_ms(wire: &mut Wire, method: &str, params: Value, times: usize) -> Result<f64> {
    let mut all = Vec::new();
    for _ in 0..times {
        let started_at = Instant::now();
        wire.call(method, params.clone()).await?;
        all.push(started_at.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut all))
}
