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

async fn run_turns(server: &Server, wire: &mut Wire, thread: &str, count: usize) -> Result<Turns> {
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
    let mut turns = run_turns(&server, &mut wire, &thread, bench.size(100)).await?;
    Ok(vec![
        Number::new("turn, instant model, p50", "ms", Target::Fraction(1.0 / 25.0), median(&mut turns.times)),
        Number::new("CPU per turn", "ms", Target::Fraction(1.0 / 25.0), turns.cpu_ms),
        Number::new("written per turn", "KB", Target::Fraction(1.0 / 50.0), turns.written / 1024.0),
    ])
}

pub async fn long_thread(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let late = late_turn_ms(bench, spec, bench.size(500)).await?;
    Ok(vec![Number::new("CPU per turn after 500 turns", "ms", Target::Fraction(1.0 / 25.0), late)])
}

pub async fn stream(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (server, mut wire) = bench.start(spec).await?;
    let stream = stream_once(bench, &server, &mut wire, bench.size(50_000)).await?;
    Ok(vec![
        Number::new("CPU per streamed delta", "µs", Target::Fraction(1.0 / 25.0), stream.cpu_us),
        Number::new("deltas in a second", "", Target::None, stream.per_second),
    ])
}

/// Streams deltas at the speed of reading, 1,000 in a second.
pub async fn paced(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let deltas = bench.size(3_000);
    let (server, mut wire) = bench.start(spec).await?;
    let prompt = model::text(deltas, 6, Duration::from_millis(deltas as u64));
    let stream = measured_stream(bench, &server, &mut wire, deltas, &prompt).await?;
    Ok(vec![Number::new("CPU per delta at 1,000 a second", "µs", Target::Fraction(1.0 / 4.0), stream.cpu_us)])
}

/// What a streamed answer has cost.
pub struct StreamCost {
    pub cpu_us: f64,
    pub per_second: f64,
}

/// Streams an answer as fast as it goes.
pub async fn stream_once(
    bench: &Bench,
    server: &Server,
    wire: &mut Wire,
    deltas: usize,
) -> Result<StreamCost> {
    measured_stream(bench, server, wire, deltas, &model::text(deltas, 6, Duration::ZERO)).await
}

async fn measured_stream(
    bench: &Bench,
    server: &Server,
    wire: &mut Wire,
    deltas: usize,
    prompt: &str,
) -> Result<StreamCost> {
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    stream_in(server, wire, &thread, deltas, prompt).await
}

/// Streams an answer in a thread, and measures what this server needs for it.
pub async fn stream_in(
    server: &Server,
    wire: &mut Wire,
    thread: &str,
    deltas: usize,
    prompt: &str,
) -> Result<StreamCost> {
    // The model creates the long answer once, which must not be measured.
    wire.turn(thread, prompt).await?;
    let before = server.usage().await?.cpu_ms;
    let started_at = Instant::now();
    wire.post("turn/start", turn_params(thread, prompt)).await?;
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
    let cpu_us = (server.usage().await?.cpu_ms - before) * 1e3 / deltas as f64;
    Ok(StreamCost { cpu_us, per_second: deltas as f64 / seconds })
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
    max_seconds: f64,
) -> Result<Vec<Number>> {
    let all = turns_at_once(bench, spec, bench.size(full)).await?;
    Ok(vec![Number::new(name, "s", Target::AtMost(max_seconds), all.seconds)])
}

/// Turns that ran at the same time.
pub struct TurnsAtOnce {
    pub seconds: f64,
    pub cpu_ms_each: f64,
}

/// Runs turns concurrently. The model takes a second for each, so a second is the minimum.
pub async fn turns_at_once(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<TurnsAtOnce> {
    let (server, mut wire) = bench.start(spec).await?;
    let work = bench.workspace()?;
    let mut threads = Vec::new();
    for _ in 0..count {
        threads.push(text(&wire.start_thread(&work).await?, "id"));
    }
    let before = server.usage().await?.cpu_ms;
    let prompt = model::text(20, 6, Duration::from_secs(1));
    let mut turns = ConcurrentTurns { waiting: threads, open: HashMap::new(), rejected: Vec::new(), done: 0 };
    let started_at = Instant::now();
    while turns.done < count {
        turns.post(&mut wire, &prompt).await?;
        turns.step(&mut wire).await?;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    Ok(TurnsAtOnce { seconds, cpu_ms_each: (server.usage().await?.cpu_ms - before) / count as f64 })
}

/// Returns the processor time of a turn that follows `count` others, in milliseconds.
pub async fn late_turn_ms(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<f64> {
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    run_turns(&server, &mut wire, &thread, count).await?;
    Ok(run_turns(&server, &mut wire, &thread, bench.size(50)).await?.cpu_ms)
}

/// Returns the median time of turns on one thread, in milliseconds.
pub async fn turn_p50(bench: &Bench, spec: &ServerSpec) -> Result<f64> {
    let (server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&thread, model::HELLO).await?;
    let mut turns = run_turns(&server, &mut wire, &thread, bench.size(100)).await?;
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
