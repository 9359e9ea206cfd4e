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
    let count = bench.size(200);
    let (_server, port) = bench.listen(spec).await?;
    let work = bench.workspace()?;
    let started_at = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..count {
        all.spawn(client(port, work.clone()));
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    Ok(vec![Number::new("200 websocket clients, one turn each", "s", Target::Fraction(1.0 / 15.0), seconds)])
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
