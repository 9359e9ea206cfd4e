//! Many clients of one server: each one connects, starts a thread and runs a turn.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    model,
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{Wire, completed, text, turn},
};

pub async fn clients(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let all = clients_at_once(bench, spec, bench.size(200)).await?;
    Ok(vec![Number::new(
        "200 websocket clients, one turn each",
        "s",
        Target::Fraction(1.0 / 15.0),
        all.seconds,
    )])
}

/// Clients that were connected at the same time.
pub struct ClientsAtOnce {
    pub seconds: f64,
    pub cpu_ms_each: f64,
}

pub async fn clients_at_once(bench: &Bench, spec: &ServerSpec, count: usize) -> Result<ClientsAtOnce> {
    let (server, port) = bench.listen(spec).await?;
    let work = bench.workspace()?;
    let before = server.usage().await?.cpu_ms;
    let started_at = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..count {
        all.spawn(client(port, work.clone()));
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    Ok(ClientsAtOnce { seconds, cpu_ms_each: (server.usage().await?.cpu_ms - before) / count as f64 })
}

async fn client(port: u16, work: String) -> Result<()> {
    let mut wire = Wire::connect(port).await?;
    wire.initialize().await?;
    let started = wire.call("thread/start", json!({ "cwd": work })).await?;
    let thread = text(&started["thread"], "id");
    wire.call("turn/start", turn(&thread, model::HELLO)).await?;
    let end = wire.until(|message| {
        let ended = message.is("turn/completed").then(|| message.params());
        ended.filter(|params| params["threadId"] == thread).map(|params| completed(&params))
    });
    end.await?
}
