//! Measures the CPU time of a streamed delta in the client, next to that of the server.
//!
//! ```sh
//! cargo build --release -p codicil-cli && cargo bench -p codicil-client --bench delta -- target/release/codicil
//! ```
//!
//! Three processes take part: a model that streams many words, the server, and this one. Their CPU time is read from
//! `/proc`, so this needs Linux. The benchmark prints numbers and judges nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::Duration,
};

use codicil_client::{Client, ClientEvent, ServerLaunch, protocol::ServerNotification, turn};
use codicil_testkit::{ModelServer, Reply, Script};

const DELTAS: usize = 20_000;
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match arguments.as_slice() {
        [mode] if mode == "model" => runtime.block_on(model()),
        [program] => runtime.block_on(measure(program)),
        _ => eprintln!("usage: delta PATH-OF-CODICIL"),
    }
}

/// Runs the model's process: prints its address and stays until standard input ends.
async fn model() {
    let deltas = (0..DELTAS).map(|number| format!("word{number} "));
    let model = ModelServer::start(Script::new().repeat(Reply::new().say_deltas(deltas))).await;
    println!("{}", model.base_url());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

async fn measure(program: &str) {
    let mut model = Command::new(std::env::current_exe().unwrap())
        .arg("model")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(model.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let home = tempfile::tempdir().unwrap();
    let server = ServerLaunch::new(program)
        .config("model_provider", "mock")
        .config("model_providers.mock.name", "mock")
        .config("model_providers.mock.base_url", format!("\"{}\"", url.trim()))
        .env("CODICIL_HOME", home.path());
    let client = Client::builder().connect(server).await.unwrap();
    let server = server_process(home.path().to_str().unwrap());
    let mut client_times = Vec::new();
    let mut server_times = Vec::new();
    for _ in 0..ROUNDS {
        let thread = client.start_thread(Default::default()).await.unwrap();
        let client_before = cpu_time(std::process::id());
        let server_before = cpu_time(server);
        let mut running = client.turn(turn(&thread.id, "Go")).await.unwrap();
        let mut seen = 0;
        let mut missed = 0;
        while let Some(event) = running.next().await {
            match event {
                ClientEvent::Notification(ServerNotification::AgentMessageDelta(_)) => seen += 1,
                ClientEvent::Missed(count) => missed += count,
                _ => {}
            }
        }
        running.finish().await.unwrap();
        assert!(seen + missed as usize >= DELTAS, "the answer was cut short");
        client_times.push((cpu_time(std::process::id()) - client_before) / DELTAS as u32);
        server_times.push((cpu_time(server) - server_before) / DELTAS as u32);
    }
    client_times.sort();
    server_times.sort();
    let client_time = client_times[ROUNDS / 2];
    let server_time = server_times[ROUNDS / 2];
    println!(
        "client {client_time:?}, server {server_time:?} per delta (median of {ROUNDS} turns of {DELTAS} deltas)"
    );
    println!("ratio {:.2}", client_time.as_secs_f64() / server_time.as_secs_f64());
    client.close().await;
    drop(model.stdin.take());
    model.wait().unwrap();
}

/// Returns the server's process: the one with this home that has used the most CPU time.
fn server_process(home: &str) -> u32 {
    let wanted = format!("CODICIL_HOME={home}");
    let has_home = |pid: &u32| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(has_home).max_by_key(|pid| cpu_time(*pid)).expect("the server runs")
}

/// Returns the CPU time of all threads of a process.
fn cpu_time(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
