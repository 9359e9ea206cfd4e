//! However a server ends, no process of its commands is left.
//!
//! `CODICIL_KILLS=1000` tests a thousand servers instead of forty.

use std::{env, fs, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{raw_server::RawServer, sandbox::can_confine, wait};

/// Children, grandchildren, and a separate process group.
const TREE: &str = "sleep 1000 & (sleep 1000 & sleep 1000) & timeout 1000 sleep 1000";

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}

/// Returns the commands of one round, of random kinds.
fn commands(mark: &str, random: &mut fastrand::Rng) -> Vec<Value> {
    let policy = if can_confine() && random.bool() { "readOnly" } else { "dangerFullAccess" };
    let kinds = [
        json!({}),
        json!({ "streamStdoutStderr": true }),
        json!({ "streamStdin": true }),
        json!({ "tty": true }),
        json!({ "command": ["sh", "-c", "sleep 0.01 & true"] }),
        json!({ "command": ["yes"], "streamStdoutStderr": true, "disableOutputCap": true }),
    ];
    let count = random.usize(1..=5);
    let command = |number: usize| {
        let mut params = json!({
            "command": ["sh", "-c", TREE],
            "processId": number.to_string(),
            "disableTimeout": true,
            "env": { "LEFTOVER_MARK": mark },
            "sandboxPolicy": { "type": policy },
        });
        let kind = kinds[random.usize(..kinds.len())].as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(kind);
        params
    };
    (0..count).map(command).collect()
}

#[tokio::test]
async fn no_process_is_left_of_a_server_that_ends_at_any_instant() {
    let mut random = fastrand::Rng::new();
    let seed = random.get_seed();
    let home = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut started = 0;
    for round in 0..kills() {
        let mark = format!("{}-{round}", std::process::id());
        let mut server = RawServer::start(home.path(), |command| {
            command.current_dir(workspace.path());
        })
        .await;
        for command in commands(&mark, &mut random) {
            server.send("command/exec", command).await;
            started += 1;
        }
        // The instant of the end is random on purpose. Until then, the client reads.
        let instant = Instant::now() + Duration::from_millis(random.u64(0..60));
        while let Ok(Some(_)) = timeout_at(instant, server.next()).await {}
        let context = format!("round {round}, {}, seed {seed:#x}", end(&mut server, &mut random).await);
        until_none_is_left(&mark, &context).await;
        assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0, "files remain: {context}");
    }
    println!("{started} commands of {} servers", kills());
}

/// Ends a server in a random way, mostly by SIGKILL, and returns which.
pub async fn end(server: &mut RawServer, random: &mut fastrand::Rng) -> &'static str {
    let way = match random.u8(0..10) {
        0 => {
            server.process.terminate();
            "asked to end"
        }
        1 => {
            server.close();
            "left alone"
        }
        _ => {
            server.process.kill();
            "killed"
        }
    };
    server.process.wait().await;
    way
}

/// Waits until all processes with the mark have ended.
pub async fn until_none_is_left(mark: &str, context: &str) {
    let ended = async {
        while let Some((pid, _)) = running(mark).first() {
            wait::for_exit(*pid).await;
        }
    };
    if timeout(Duration::from_secs(20), ended).await.is_err() {
        panic!("still running: {:?} ({context})", running(mark));
    }
}

/// Returns the processes with the mark in their environment, except for zombies.
fn running(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("LEFTOVER_MARK={mark}\0");
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let look = |pid: i32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        let carries = read("environ").windows(wanted.len()).any(|part| part == wanted.as_bytes());
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        (carries && !is_zombie).then_some((pid, line))
    };
    names.filter_map(|name| name.parse().ok()).filter_map(look).collect()
}
