//! How soon a server is there, and what it weighs.

use std::time::Instant;

use anyhow::Result;

use crate::{
    meter::{median, megabytes},
    server::{Bench, Spec},
    table::{Number, Target},
};

pub async fn start(bench: &Bench, spec: &Spec) -> Result<Vec<Number>> {
    let mut times = Vec::new();
    let mut idle = 0.0;
    for _ in 0..bench.size(20) {
        let home = bench.home()?;
        let began = Instant::now();
        let (server, _wire) = bench.start_in(spec, &home).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        idle = server.resident_kib().await? / 1024.0;
    }
    Ok(vec![
        Number::new("spawn to `initialize` answered", "ms", Target::Part(1.0 / 10.0), median(&mut times)),
        Number::new("idle RSS", "MB", Target::Part(1.0 / 4.0), idle),
        Number::new("binary", "MB", Target::AtMost(30.0), megabytes(&spec.binary)?),
    ])
}

pub async fn threads(bench: &Bench, spec: &Spec) -> Result<Vec<Number>> {
    let (server, mut wire) = bench.start(spec).await?;
    let work = bench.workspace()?;
    // The first threads load what all of them share.
    for _ in 0..5 {
        wire.start_thread(&work).await?;
    }
    let before = server.resident_kib().await?;
    let count = bench.size(200);
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        wire.start_thread(&work).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let grown = server.resident_kib().await? - before;
    Ok(vec![
        Number::new("`thread/start` p50", "ms", Target::Part(1.0 / 20.0), median(&mut times)),
        Number::new("RSS per loaded idle thread", "KB", Target::Part(1.0 / 15.0), grown / count as f64),
    ])
}
