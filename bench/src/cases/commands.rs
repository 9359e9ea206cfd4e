//! Commands: of a client, of the model, and their output.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    meter::median,
    model,
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{text, turn},
};

/// Shell calls per turn.
const CALLS: usize = 10;

pub async fn exec(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (_server, mut wire) = bench.start(spec).await?;
    let params = json!({ "command": ["true"], "cwd": bench.workspace()? });
    let mut times = Vec::new();
    for _ in 0..bench.size(100) {
        let started_at = Instant::now();
        let ended = wire.call("command/exec", params.clone()).await?;
        times.push(started_at.elapsed().as_secs_f64() * 1e3);
        ensure!(ended["exitCode"] == 0, "`true` ended with {ended}");
    }
    Ok(vec![Number::new(
        "`command/exec true`, sandboxed, p50",
        "ms",
        Target::Fraction(1.0 / 8.0),
        median(&mut times),
    )])
}

/// Measures what a sandboxed shell command and its request to the model add to a plain turn.
pub async fn tool_call(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let (_server, mut wire) = bench.start(spec).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&thread, &model::calls(1)).await?;
    let mut plain = Vec::new();
    let mut with_calls = Vec::new();
    for _ in 0..5 {
        let started_at = Instant::now();
        wire.turn(&thread, model::HELLO).await?;
        plain.push(started_at.elapsed().as_secs_f64() * 1e3);

        let started_at = Instant::now();
        wire.post("turn/start", turn(&thread, &model::calls(CALLS))).await?;
        let mut succeeded = 0;
        wire.until(|message| {
            if message.is("item/completed") && message.params()["item"]["exitCode"] == 0 {
                succeeded += 1;
            }
            message.is("turn/completed").then_some(())
        })
        .await?;
        with_calls.push(started_at.elapsed().as_secs_f64() * 1e3);
        ensure!(succeeded == CALLS, "{succeeded} of {CALLS} calls succeeded");
    }
    let each = (median(&mut with_calls) - median(&mut plain)) / CALLS as f64;
    Ok(vec![Number::new("tool call beyond a turn", "ms", Target::Fraction(1.0 / 8.0), each)])
}

pub async fn output(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let size = bench.size(64) << 20;
    let (_server, mut wire) = bench.start(spec).await?;
    let params = json!({
        "command": ["head", "-c", size.to_string(), "/dev/zero"], "cwd": bench.workspace()?, "processId": "output",
        "streamStdoutStderr": true, "disableOutputCap": true, "disableTimeout": true,
        "sandboxPolicy": { "type": "dangerFullAccess" },
    });
    let started_at = Instant::now();
    let id = wire.post("command/exec", params).await?;
    let mut received = 0;
    let ended = wire.until(|message| {
        if message.is("command/exec/outputDelta") {
            received += message.text_len("deltaBase64") / 4 * 3;
        }
        (message.answers() == Some(id)).then(|| message.result())
    });
    ended.await??;
    let seconds = started_at.elapsed().as_secs_f64();
    // The padding of base64 counts as up to two bytes per message.
    ensure!(received >= size, "{received} of {size} bytes received");
    Ok(vec![Number::new(
        "64 MB of command output",
        "MB/s",
        Target::Times(2.0),
        (size >> 20) as f64 / seconds,
    )])
}
