//! One server for many: each client connects, starts a thread and runs a turn.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    model,
    server::{Bench, Spec},
    table::{Number, Target},
    wire::{Wire, completed, text, turn},
};

pub async fn clients(bench: &Bench, spec: &Spec) -> Result<Vec<Number>> {
    let count = bench.size(200);
    let (_server, port) = bench.listen(spec).await?;
    let work = bench.workspace()?;
    let began = Instant::now();
    let mut all = JoinSet::new();
    for _ in 0..count {
        all.spawn(client(port, work.clone()));
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(vec![Number::new("200 websocket clients, one turn each", "s", Target::Part(1.0 / 15.0), seconds)])
}

async fn client(port: u16, work: String) -> Result<()> {
    let mut wire = Wire::connect(port).await?;
    wire.initialize().await?;
    let started = patiently(&mut wire, "thread/start", json!({ "cwd": work })).await?;
    let thread = text(&started["thread"], "id");
    patiently(&mut wire, "turn/start", turn(&thread, model::HELLO)).await?;
    let end = wire.until(|message| {
        let ended = message.is("turn/completed").then(|| message.params());
        ended.filter(|params| params["threadId"] == thread).map(|params| completed(&params))
    });
    end.await?
}

/// A call that is made again while the server is overloaded.
async fn patiently(wire: &mut Wire, method: &str, params: Value) -> Result<Value> {
    loop {
        let id = wire.post(method, params.clone()).await?;
        let answer = wire.until(|message| {
            let ours = message.answers() == Some(id);
            ours.then(|| if message.is_overload() { Ok(None) } else { message.result().map(Some) })
        });
        if let Some(result) = answer.await?? {
            return Ok(result);
        }
        sleep(Duration::from_millis(200)).await;
    }
}
