//! A server over a database beside the same server over files. The numbers are ratios, or are counted in commits and round
//! trips of the database, so that they mean the same on every machine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use super::{history::median_request_ms, turns};
use crate::{
    meter::median,
    model,
    server::{Bench, ServerSpec},
    table::{Number, Target},
    wire::{Wire, text},
};

/// The number of commits and round trips that are measured.
const SAMPLES: usize = 200;

pub async fn turn(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let database = BenchDatabase::connect(bench.store()?).await?;
    let commit = database.commit_ms().await?;
    let embedded = turns::turn_p50(bench, spec).await?;
    let shared = turns::turn_p50(bench, &spec.over(bench.store()?)).await?;
    Ok(vec![
        Number::new(
            "turn beyond one over files, p50, commits",
            "",
            Target::AtMost(4.0),
            (shared - embedded) / commit,
        ),
        Number::new("turn over a database, p50", "ms", Target::None, shared),
        Number::new("commit of an append, p50", "ms", Target::None, commit),
    ])
}

pub async fn five_hundred(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let count = bench.size(500);
    let embedded = turns::turns_at_once(bench, spec, count).await?.seconds;
    let shared = turns::turns_at_once(bench, &spec.over(bench.store()?), count).await?.seconds;
    Ok(vec![
        Number::new("500 turns of 1 s, times those over files", "", Target::AtMost(1.3), shared / embedded),
        Number::new("500 turns of 1 s over a database", "s", Target::None, shared),
    ])
}

/// Measures lists of 100,000 threads, which are copies of one that the server has written.
pub async fn list(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let database = BenchDatabase::connect(bench.store()?).await?;
    let (_server, mut wire) = bench.start(&spec.over(bench.store()?)).await?;
    let thread = text(&wire.start_thread(&bench.workspace()?).await?, "id");
    wire.turn(&thread, model::HELLO).await?;
    database.fill(&thread, bench.size(100_000)).await?;
    let round_trip = database.round_trip_ms().await?;
    let page = median_request_ms(&mut wire, "thread/list", json!({ "limit": 25 }), 20).await;
    database.clear().await?;
    let page = page?;
    Ok(vec![
        Number::new(
            "`thread/list` page beyond a round trip, 100,000 threads",
            "ms",
            Target::AtMost(1.0),
            page - round_trip,
        ),
        Number::new("round trip, p50", "ms", Target::None, round_trip),
    ])
}

/// Measures a stream that one server relays to its client, beside the same stream served by the owner of the thread.
pub async fn relay(bench: &Bench, spec: &ServerSpec) -> Result<Vec<Number>> {
    let spec = spec.over(bench.store()?);
    let deltas = bench.size(200_000);
    let prompt = model::text(deltas, 6, Duration::ZERO);
    let (owner, owner_port) = bench.listen(&spec).await?;
    let mut own = Wire::connect(owner_port).await?;
    own.initialize().await?;
    let thread = text(&own.start_thread(&bench.workspace()?).await?, "id");
    let served = turns::stream_in(&owner, &mut own, &thread, deltas, &prompt).await?;

    let (between, port) = bench.listen(&spec).await?;
    let mut wire = Wire::connect(port).await?;
    wire.initialize().await?;
    wire.call("thread/resume", json!({ "threadId": thread })).await?;
    drop(own);
    let relayed = turns::stream_in(&between, &mut wire, &thread, deltas, &prompt).await?;
    Ok(vec![
        Number::new(
            "CPU per relayed delta, times serving it",
            "",
            Target::AtMost(1.5),
            relayed.cpu_us / served.cpu_us,
        ),
        Number::new("CPU per relayed delta", "µs", Target::None, relayed.cpu_us),
    ])
}

/// A connection for what the server does not offer.
struct BenchDatabase {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for BenchDatabase {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl BenchDatabase {
    async fn connect(url: &str) -> Result<Self> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("cannot use the database")?;
        let task = tokio::spawn(async move { connection.await.unwrap_or_default() });
        Ok(Self { client, task })
    }

    /// Returns the time of the least transaction that appends to a log: it advances a row and inserts another one of 1 KB.
    async fn commit_ms(&self) -> Result<f64> {
        let create = "drop table if exists codicil_bench_lease, codicil_bench_log;
            create table codicil_bench_lease (thread integer primary key, next bigint not null);
            create table codicil_bench_log (next bigint primary key, lines text not null);
            insert into codicil_bench_lease values (1, 0)";
        let append =
            "with own as (update codicil_bench_lease set next = next + 1 where thread = 1 returning next)
            insert into codicil_bench_log select next, repeat('x', 1024) from own";
        self.client.batch_execute(create).await?;
        let commit = self.median_ms(append).await;
        self.client.batch_execute("drop table codicil_bench_lease, codicil_bench_log").await?;
        commit
    }

    async fn round_trip_ms(&self) -> Result<f64> {
        self.median_ms("select 1").await
    }

    async fn median_ms(&self, sql: &str) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..SAMPLES {
            let sent = Instant::now();
            self.client.batch_execute(sql).await?;
            times.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(&mut times))
    }

    /// Copies the list entry of a thread.
    async fn fill(&self, thread: &str, count: usize) -> Result<()> {
        let sql = format!(
            "insert into codicil_thread
            with fresh as materialized (select gen_random_uuid() as id, number from generate_series(1, {count}) number)
            select entry.* from codicil_thread t, fresh, lateral jsonb_populate_record(t, jsonb_build_object(
                'id', fresh.id, 'root', fresh.id, 'place', 'bench', 'created_at', t.created_at - fresh.number,
                'updated_at', t.updated_at - fresh.number)) entry
            where t.id = '{thread}';
            analyze codicil_thread"
        );
        Ok(self.client.batch_execute(&sql).await?)
    }

    async fn clear(&self) -> Result<()> {
        self.client.batch_execute("delete from codicil_thread where place = 'bench'").await?;
        // Otherwise the next list reads past the deleted rows.
        Ok(self.client.batch_execute("vacuum codicil_thread").await?)
    }
}
