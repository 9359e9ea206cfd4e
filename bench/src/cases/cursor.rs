//! The cursor of the extension: what positions cost in a stream, and reconnecting beside `thread/resume`. A server without the
//! extension has none of these numbers.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::turns::stream_once;
use crate::{
    meter::median,
    model,
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{Wire, text, turn},
};

/// Number of times that a client reconnects in each way.
const RECONNECTS: usize = 30;

/// Measures a stream for a client with a cursor as a part of the same stream without one.
pub async fn cursor(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let deltas = bench.size(50_000);
    let mut server = bench.spawn_plain(spec)?;
    let mut wire = server.wire()?;
    if !wire.initialize_with_cursor().await? {
        return Ok(Vec::new());
    }
    let with = stream_once(bench, &server, &mut wire, deltas).await?;
    let (server, mut wire) = bench.start(spec).await?;
    let without = stream_once(bench, &server, &mut wire, deltas).await?;
    Ok(vec![
        Number::new("CPU per delta with a cursor", "µs", Target::None, with.cpu_us),
        Number::new(
            "part of CPU per delta without one",
            "",
            Target::AtMost(1.15),
            with.cpu_us / without.cpu_us,
        ),
    ])
}

/// Measures how long a client that reconnects needs until it has everything that it missed, as a part of `thread/resume`.
pub async fn reconnect(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (_server, port) = bench.listen(spec).await?;
    let mut wire = Wire::connect(port).await?;
    if !wire.initialize_with_cursor().await? {
        return Ok(Vec::new());
    }
    let started = wire.call("thread/start", json!({ "cwd": bench.workspace()? })).await?;
    let thread = text(&started["thread"], "id");
    let mut ends = vec![position(&started["seq"])?];
    for _ in 0..bench.size(200) {
        ends.push(end_of_turn(&mut wire, &thread).await?);
    }
    let last = ends.last().copied().unwrap_or_default();
    let tenth = ends.iter().rev().nth(bench.size(20)).copied().unwrap_or_default();
    let from_tenth = compare_reconnects(port, &thread, MissedMessages { after: tenth, last }).await?;
    let from_start = ends.first().copied().unwrap_or_default();
    let from_start = compare_reconnects(port, &thread, MissedMessages { after: from_start, last }).await?;

    // A turn that is still running when the measurement is over.
    let long = model::text(6_000, 6, std::time::Duration::from_secs(600));
    wire.post("turn/start", turn(&thread, &long)).await?;
    let after = wire.until(|message| message.seq.filter(|_| message.is("item/agentMessage/delta"))).await?;
    let from_recent = compare_reconnects(port, &thread, MissedMessages { after, last: u64::MAX }).await?;
    Ok(vec![
        Number::new("reconnect during a turn", "ms", Target::None, from_recent.subscribe_ms),
        Number::new("part of `thread/resume`, during a turn", "", Target::AtMost(0.2), from_recent.ratio()),
        Number::new("reconnect after 20 of 200 turns", "ms", Target::None, from_tenth.subscribe_ms),
        Number::new("part of `thread/resume`, 20 of 200 turns", "", Target::AtMost(1.5), from_tenth.ratio()),
        Number::new("part of `thread/resume`, all 200 turns", "", Target::None, from_start.ratio()),
    ])
}

/// Runs a turn. Returns the position of its end.
async fn end_of_turn(wire: &mut Wire, thread: &str) -> Result<u64> {
    wire.post("turn/start", turn(thread, model::HELLO)).await?;
    wire.until(|message| message.seq.filter(|_| message.is("turn/completed"))).await
}

/// The positions of what a client has missed.
#[derive(Clone, Copy)]
struct MissedMessages {
    after: u64,
    /// The last message that is stored. An idle thread has reached a later position with messages that are not sent again.
    last: u64,
}

/// Medians of both ways to continue.
struct Reconnection {
    subscribe_ms: f64,
    resume_ms: f64,
}

impl Reconnection {
    fn ratio(&self) -> f64 {
        self.subscribe_ms / self.resume_ms
    }
}

/// Reconnects in both ways, one after the other.
async fn compare_reconnects(port: u16, thread: &str, missed: MissedMessages) -> Result<Reconnection> {
    let mut subscribed = Vec::new();
    let mut resumed = Vec::new();
    for _ in 0..RECONNECTS {
        subscribed.push(subscribe(port, thread, missed).await?);
        resumed.push(resume(port, thread).await?);
    }
    Ok(Reconnection { subscribe_ms: median(&mut subscribed), resume_ms: median(&mut resumed) })
}

/// Returns the milliseconds from the request to the last message that the client has missed.
async fn subscribe(port: u16, thread: &str, missed: MissedMessages) -> Result<f64> {
    let MissedMessages { after, last } = missed;
    let mut wire = Wire::connect(port).await?;
    wire.initialize_with_cursor().await?;
    let started_at = Instant::now();
    let id = wire.post("codicil/subscribe", json!({ "threadId": thread, "after": after })).await?;
    let answer = wire.until(|message| (message.answers() == Some(id)).then(|| message.result())).await??;
    ensure!(answer["mode"] == "replay", "the answer is a {}", answer["mode"]);
    let end = position(&answer["at"])?.min(last);
    if end > after {
        wire.until(|message| message.seq.filter(|seq| *seq >= end)).await?;
    }
    Ok(started_at.elapsed().as_secs_f64() * 1e3)
}

/// Returns the milliseconds from the request to its answer.
async fn resume(port: u16, thread: &str) -> Result<f64> {
    let mut wire = Wire::connect(port).await?;
    wire.initialize_with_cursor().await?;
    let started_at = Instant::now();
    let id = wire.post("thread/resume", json!({ "threadId": thread })).await?;
    wire.until(|message| (message.answers() == Some(id)).then(|| message.result())).await??;
    Ok(started_at.elapsed().as_secs_f64() * 1e3)
}

fn position(value: &Value) -> Result<u64> {
    value.as_u64().context("the server sends no position")
}
