//! However a server ends, nothing it started is left.
//!
//! `CODICIL_KILLS=1000` makes it a thousand servers instead of forty.

use std::{env, fs, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{raw::Raw, sandbox::confines};

/// Children, grandchildren, and a process group of its own.
const TREE: &str = "sleep 1000 & (sleep 1000 & sleep 1000) & timeout 1000 sleep 1000";

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40)
}

/// The commands of one round, of every kind.
fn commands(mark: &str, random: &mut fastrand::Rng) -> Vec<Value> {
    let policy = if confines() && random.bool() { "readOnly" } else { "dangerFullAccess" };
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
async fn nothing_is_left_of_a_server_that_ends_at_any_instant() {
    let mut random = fastrand::Rng::new();
    let seed = random.get_seed();
    let home = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut started = 0;
    for round in 0..kills() {
        let mark = format!("{}-{round}", std::process::id());
        let mut server = Raw::start(home.path(), |command| {
            command.current_dir(workspace.path());
        })
        .await;
        for command in commands(&mark, &mut random) {
            server.send("command/exec", command).await;
            started += 1;
        }
        // The instant is what this is about, so it is left to chance.
        sleep(Duration::from_millis(random.u64(0..60))).await;
        let seen = format!("round {round}, {}, seed {seed:#x}", end(&mut server, &mut random).await);
        until_none_is_left(&mark, &seen).await;
        assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0, "litter: {seen}");
    }
    println!("{started} commands of {} servers", kills());
}

/// Ends a server in one way or another, mostly as a crash would, and says which.
pub async fn end(server: &mut Raw, random: &mut fastrand::Rng) -> &'static str {
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

/// Nobody is told of the end of somebody else's process, so this looks again and again.
pub async fn until_none_is_left(mark: &str, seen: &str) {
    for _ in 0..2000 {
        if left(mark).is_empty() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("left: {:?} ({seen})", left(mark));
}

/// Processes that carry the mark and are not dead already.
fn left(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("LEFTOVER_MARK={mark}\0");
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let look = |pid: u32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        let carries = read("environ").windows(wanted.len()).any(|part| part == wanted.as_bytes());
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        (carries && !is_zombie).then_some((pid, line))
    };
    names.filter_map(|name| name.parse().ok()).filter_map(look).collect()
}
