//! Turns: one after the other, on a growing thread, streamed, and many at once.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    meter::median,
    model,
    server::{Bench, Server, ServerSpec},
    table::{Number, Target},
    wire::{Wire, completed, text, turn as turn_params},
};

/// Maximum number of open requests.
const OPEN_REQUESTS: usize = 32;

/// Milliseconds of each turn, and usage per turn.
struct Turns {
    times: Vec<f64>,
    cpu_ms: f64,
    written: f64,
}

async fn run(server: &Server, wire: &mut Wire, thread: &str, count: usize) -> Result<Turns> {
    let before = server.usage().await?;
    let mut times = Vec::new();
    for _ in 0..count {
        let started_at = Instant::now();
        wire.turn(thread, model::HELLO).await?;
        times.push(started_at.elapsed().as_secs_f64() * 1e3);
    }
    let after = server.usage().await?;
    let each = |total: f64| total / count as f64;
    Ok(Turns {
        times,
        cpu_ms: each(after.cpu_ms - before.cpu_ms),
        written: each(after.written - before.written),
    })
}

pub async fn turn(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&thread, model::HELLO).await?;
    let mut turns = run(&server, &mut wire, &thread, bench.size(100)).await?;
    Ok(vec![
        Number::new("turn, instant model, p50", "ms", Target::Fraction(1.0 / 25.0), median(&mut turns.times)),
        Number::new("CPU per turn", "ms", Target::Fraction(1.0 / 25.0), turns.cpu_ms),
        Number::new("written per turn", "KB", Target::Fraction(1.0 / 50.0), turns.written / 1024.0),
    ])
}

pub async fn long_thread(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    run(&server, &mut wire, &thread, bench.size(500)).await?;
    let late = run(&server, &mut wire, &thread, bench.size(50)).await?;
    Ok(vec![Number::new("CPU per turn after 500 turns", "ms", Target::Fraction(1.0 / 25.0), late.cpu_ms)])
}

pub async fn stream(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let deltas = bench.size(50_000);
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    let prompt = model::text(deltas, 6, Duration::ZERO);
    // The model creates the long answer once, which must not be measured.
    wire.turn(&thread, &prompt).await?;
    let before = server.usage().await?.cpu_ms;
    let started_at = Instant::now();
    wire.post("turn/start", turn_params(&thread, &prompt)).await?;
    let mut seen = 0;
    wire.until(|message| {
        if message.is("item/agentMessage/delta") {
            seen += message.text_len("delta");
        }
        message.is("turn/completed").then_some(())
    })
    .await?;
    let seconds = started_at.elapsed().as_secs_f64();
    ensure!(seen == deltas * 6, "received {seen} bytes of {}", deltas * 6);
    let cpu = (server.usage().await?.cpu_ms - before) * 1e3 / deltas as f64;
    Ok(vec![
        Number::new("CPU per streamed delta", "µs", Target::Fraction(1.0 / 25.0), cpu),
        Number::new("deltas in a second", "", Target::Shown, deltas as f64 / seconds),
    ])
}

pub async fn hundred(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    at_once(bench, spec, 100, "100 turns of 1 s, all complete", 1.1).await
}

pub async fn five_hundred(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    at_once(bench, spec, 500, "500 turns of 1 s, all complete", 1.5).await
}

async fn at_once(
    bench: &Bench,
    spec: &ServerSpec,
    full: usize,
    name: &'static str,
    most: f64,
) -> Result<Vec<Number>> {
    let seconds = seconds_at_once(bench, spec, bench.size(full)).await?;
    Ok(vec![Number::new(name, "s", Target::AtMost(most), seconds)])
}

/// Runs turns concurrently. The model takes a second for each, so a second is the minimum.
pub async fn seconds_at_once(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<f64> {
    let (_server, mut wire) = bench.start(spec).await?;
    let work = bench.workspace()?;
    let mut threads = Vec::new();
    for _ in 0..count {
        threads.push(text(&wire.start_thread(&work).await?, "id"));
    }
    let prompt = model::text(20, 6, Duration::from_secs(1));
    let mut turns = ConcurrentTurns { waiting: threads, open: HashMap::new(), rejected: Vec::new(), done: 0 };
    let started_at = Instant::now();
    while turns.done < count {
        turns.post(&mut wire, &prompt).await?;
        turns.step(&mut wire).await?;
    }
    Ok(started_at.elapsed().as_secs_f64())
}

/// Returns the median time of turns on one thread, in milliseconds.
pub async fn turn_p50(bench: &Bench, spec: &ServerSpec) -> Result<f64> {
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&thread, model::HELLO).await?;
    let mut turns = run(&server, &mut wire, &thread, bench.size(100)).await?;
    server.end(wire).await?;
    Ok(median(&mut turns.times))
}

/// The state of concurrent turns.
struct ConcurrentTurns {
    waiting: Vec<String>,
    open: HashMap<i64, String>,
    rejected: Vec<String>,
    done: usize,
}

impl ConcurrentTurns {
    async fn post(&mut self, wire: &mut Wire, prompt: &str) -> Result<()> {
        if !self.rejected.is_empty() {
            sleep(Duration::from_millis(50)).await;
            self.waiting.append(&mut self.rejected);
        }
        while self.open.len() < OPEN_REQUESTS
            && let Some(thread) = self.waiting.pop()
        {
            let id = wire.post("turn/start", turn_params(&thread, prompt)).await?;
            self.open.insert(id, thread);
        }
        Ok(())
    }

    /// Reads up to the next message that changes the state.
    async fn step(&mut self, wire: &mut Wire) -> Result<()> {
        wire.until(|message| {
            if let Some(thread) = message.answers().and_then(|id| self.open.remove(&id)) {
                if message.is_overload() {
                    self.rejected.push(thread);
                    return Some(Ok(()));
                }
                return Some(message.result().map(|_: Value| ()));
            }
            message.is("turn/completed").then(|| {
                self.done += 1;
                completed(&message.params())
            })
        })
        .await?
    }
}
