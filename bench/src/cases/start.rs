//! The start of a server, its memory and its size.

use std::time::Instant;

use anyhow::Result;

use crate::{
    meter::{median, megabytes},
    server::{Bench, ServerSpec},
    table::{Number, Target},
};

pub async fn start(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let mut times = Vec::new();
    let mut idle = 0.0;
    for _ in 0..bench.size(20) {
        let home = bench.home()?;
        let started_at = Instant::now();
        let (server, _wire) = bench.start_in(spec, &home).await?;
        times.push(started_at.elapsed().as_secs_f64() * 1e3);
        idle = server.resident_kib().await? / 1024.0;
    }
    Ok(vec![
        Number::new("spawn to `initialize` answered", "ms", Target::Fraction(1.0 / 10.0), median(&mut times)),
        Number::new("idle RSS", "MB", Target::Fraction(1.0 / 4.0), idle),
        Number::new("binary", "MB", Target::AtMost(30.0), megabytes(&spec.binary)?),
    ])
}

pub async fn threads(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let threads = loaded_threads(bench, spec, bench.size(200)).await?;
    Ok(vec![
        Number::new("`thread/start` p50", "ms", Target::Fraction(1.0 / 20.0), threads.start_ms),
        Number::new("RSS per loaded idle thread", "KB", Target::Fraction(1.0 / 15.0), threads.kib_each),
    ])
}

/// Threads that a server has loaded.
pub struct LoadedThreads {
    /// The median of all starts.
    pub start_ms: f64,
    pub kib_each: f64,
}

pub async fn loaded_threads(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<LoadedThreads> {
    let (server, mut wire) = bench.start(spec).await?;
    let work = bench.workspace()?;
    // The first threads load what all of them share.
    for _ in 0..5 {
        wire.start_thread(&work).await?;
    }
    let before = server.resident_kib().await?;
    let mut times = Vec::new();
    for _ in 0..count {
        let started_at = Instant::now();
        wire.start_thread(&work).await?;
        times.push(started_at.elapsed().as_secs_f64() * 1e3);
    }
    let grown = server.resident_kib().await? - before;
    Ok(LoadedThreads { start_ms: median(&mut times), kib_each: grown / count as f64 })
}
