//! A client that writes without reading: no request may be lost, and memory must not grow.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt},
    process::ChildStdin,
    time::{sleep, timeout},
};

use crate::{
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{Incoming, Wire},
};

/// The id of the first request of the flood.
const FIRST: i64 = 1_000_000;

pub async fn flood(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let count = bench.size(20_000);
    let (server, wire) = bench.start(spec).await?;
    let before = server.resident_kib().await?;
    let Wire::Stdio { to, mut from, .. } = wire else { bail!("a flood goes over stdio") };
    let writing = tokio::spawn(write(to, count));
    sleep(Duration::from_secs(1)).await;
    let grown = (server.resident_kib_now()? - before) / 1024.0;

    let mut answered = 0;
    let mut refused = 0;
    let mut line = Vec::new();
    while answered + refused < count {
        line.clear();
        let Ok(Ok(1..)) = timeout(Duration::from_secs(5), from.read_until(b'\n', &mut line)).await else {
            break;
        };
        let message = serde_json::from_slice::<Incoming<'_>>(&line)?;
        match message.answers() {
            Some(id) if id >= FIRST && message.is_overload() => refused += 1,
            Some(id) if id >= FIRST => answered += 1,
            _ => {}
        }
    }
    writing.abort();
    Ok(vec![
        Number::new(
            "of 20,000 requests unread for 1 s, never answered",
            "",
            Target::AtMost(0.0),
            (count - answered - refused) as f64,
        ),
        Number::new("refused with -32001", "", Target::None, refused as f64),
        Number::new("RSS growth meanwhile", "MB", Target::AtMost(20.0), grown),
    ])
}

/// Writes the requests, and keeps standard input open: the server would end with it.
async fn write(mut to: ChildStdin, count: usize) -> Result<()> {
    for id in FIRST..FIRST + count as i64 {
        let request = json!({ "id": id, "method": "thread/loaded/list", "params": {} });
        to.write_all(format!("{request}\n").as_bytes()).await?;
    }
    std::future::pending().await
}
