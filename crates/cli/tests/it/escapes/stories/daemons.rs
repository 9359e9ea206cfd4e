//! Processes that leave the session of their command end with it.

use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{PATIENCE, Stage, file_appears, is_wanted};
use crate::{
    escapes::{
        lines::workspace_write,
        scene::Run,
        server::{Listen, Server},
        ways::{client_policy, exec},
    },
    wait,
};

/// Endings that must also end a daemon, in the order in which they are tried with one server.
const ENDINGS: [&str; 4] = [
    "daemon-of-terminated-command",
    "daemon-of-command-out-of-time",
    "daemon-of-cleaned-terminal",
    "daemon-of-interrupted-turn",
];

/// Number of daemons started so far, in all modes.
static DAEMONS: AtomicUsize = AtomicUsize::new(0);

/// Returns a shell line that starts a daemon and continues. The daemon creates the file and then sleeps for
/// this long.
fn daemon_line(run: &Run<'_>, started: &str, seconds: &str) -> String {
    let tool = run.scene.tool("daemon.py");
    format!("python3 -I -S {} {started} {seconds}; sleep 1000", tool.display())
}

pub async fn make_all(stage: &mut Stage<'_>) {
    if !is_wanted("daemon") {
        return;
    }
    let scene = stage.scene;
    let run = scene.run();
    // Numbers that no other process of the machine uses.
    let mut marks: BTreeMap<&str, String> = BTreeMap::new();
    let names = ENDINGS.into_iter().chain([
        "daemon-of-killed-server",
        "daemon-of-ended-server",
        "daemon-of-ended-command-and-server",
    ]);
    for name in names {
        let number = DAEMONS.fetch_add(1, Ordering::Relaxed);
        marks.insert(name, format!("{}.{}", 70_000 + number, std::process::id()));
    }
    let mut server = Server::start(scene, Listen::Stdio, "").await;
    for name in ENDINGS {
        let started = run.work(name);
        let line = daemon_line(&run, &started, &marks[name]);
        let params = json!({
            "command": ["bash", "-c", line], "cwd": run.work, "sandboxPolicy": client_policy(workspace_write(), &run.work),
            "processId": name, "timeoutMs": if name.contains("time") { 1500 } else { 100_000 },
        });
        match name {
            "daemon-of-terminated-command" => {
                server.send("command/exec", params);
                assert!(file_appears(started.as_ref()).await, "{name} starts");
                server.call("command/exec/terminate", json!({ "processId": name })).await;
            }
            "daemon-of-command-out-of-time" => {
                let running = server.send("command/exec", params);
                assert!(file_appears(started.as_ref()).await, "{name} starts");
                server.answer(running).await;
            }
            "daemon-of-cleaned-terminal" => {
                let mut thread = server.start_thread(&run.work, workspace_write(), json!({})).await;
                server.turn(&mut thread, vec![exec(&line, None, json!({ "yield_time_ms": 250 }))]).await;
                assert!(file_appears(started.as_ref()).await, "{name} starts");
                server.call("thread/backgroundTerminals/clean", json!({ "threadId": thread.id })).await;
            }
            _ => {
                let mut thread = server.start_thread(&run.work, workspace_write(), json!({})).await;
                server.start_turn(&mut thread, vec![exec(&line, None, json!({}))]).await;
                assert!(file_appears(started.as_ref()).await, "{name} starts");
                let read =
                    server.call("thread/read", json!({ "threadId": thread.id, "includeTurns": true })).await;
                let turn = read["result"]["thread"]["turns"][0]["id"].clone();
                server.call("turn/interrupt", json!({ "threadId": thread.id, "turnId": turn })).await;
            }
        }
    }
    with_server_end(stage, &run, &marks).await;
    let deadline = Instant::now() + PATIENCE;
    for (name, mark) in &marks {
        let running = running_at(deadline, mark).await;
        stage.report.attempt(name, "double fork and setsid", !running.is_empty(), format!("{running:?}"));
        for pid in running {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
    server.process.kill();
    server.process.wait().await;
}

/// Starts daemons with servers that end in several ways.
async fn with_server_end(stage: &mut Stage<'_>, run: &Run<'_>, marks: &BTreeMap<&str, String>) {
    for name in ["daemon-of-killed-server", "daemon-of-ended-server", "daemon-of-ended-command-and-server"] {
        let mut server = Server::start(stage.scene, Listen::Stdio, "").await;
        let started = run.work(name);
        let line = daemon_line(run, &started, &marks[name]);
        let line = if name.contains("command") { line.replace("sleep 1000", "true") } else { line };
        let mut thread = server.start_thread(&run.work, workspace_write(), json!({})).await;
        server.turn(&mut thread, vec![exec(&line, None, json!({ "yield_time_ms": 250 }))]).await;
        // The daemon of a command that has ended may have ended with it.
        let appears = name.contains("command") || file_appears(started.as_ref()).await;
        assert!(appears, "{name} starts");
        match name {
            "daemon-of-killed-server" => server.process.kill(),
            _ => server.close(),
        }
        server.process.wait().await;
    }
}

/// Returns the daemons with this mark that have not ended at the deadline.
async fn running_at(deadline: Instant, mark: &str) -> Vec<i32> {
    let ended = async {
        while let Some(pid) = sleeping(mark).first() {
            wait::for_exit(*pid).await;
        }
    };
    // The result does not matter: the processes are looked up once more.
    let _ = timeout_at(deadline, ended).await;
    sleeping(mark)
}

/// Returns the processes that sleep for this number of seconds.
fn sleeping(mark: &str) -> Vec<i32> {
    let wanted = format!("sleep\0{mark}\0");
    let names =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse::<i32>().ok());
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted))
        .collect()
}
