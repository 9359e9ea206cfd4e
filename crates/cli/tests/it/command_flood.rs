//! A command that floods a client which does not read: the command blocks, and memory is bounded.

use std::{fs, time::Duration};

use serde_json::json;
use tokio::time::interval;

use crate::{raw_server::RawServer, soon};

/// Returns how many bytes the process has written so far, to any file.
fn written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Waits until the server has stopped writing. No event announces that, so this compares its counter.
///
/// On a slow machine this may return early. Then less memory is in use, and the test is weaker but passes.
async fn until_blocked(pid: u32) {
    let mut ticks = interval(Duration::from_millis(40));
    let mut last = u64::MAX;
    let mut unchanged = 0;
    while unchanged < 5 {
        ticks.tick().await;
        let now = written(pid);
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
}

#[tokio::test]
async fn a_flooding_command_blocks_and_can_be_terminated() {
    let home = tempfile::tempdir().unwrap();
    let mut server = RawServer::start(home.path(), |_| {}).await;
    let params = |id: &str| {
        json!({ "command": ["yes"], "processId": id, "streamStdoutStderr": true, "disableOutputCap": true,
            "disableTimeout": true, "sandboxPolicy": { "type": "dangerFullAccess" } })
    };
    let warm = json!({ "command": ["true"], "sandboxPolicy": { "type": "dangerFullAccess" } });
    server.call("command/exec", warm).await;
    let before = server.process.resident_kib();

    let one = server.send("command/exec", params("one")).await;
    let two = server.send("command/exec", params("two")).await;
    soon(until_blocked(server.process.id())).await;
    let grown = server.process.peak_kib().saturating_sub(before) >> 10;
    assert!(grown <= 20, "{grown} MiB more");

    // These requests are served although nothing is read.
    let ends = [
        server.send("command/exec/terminate", json!({ "processId": "one" })).await,
        server.send("command/exec/terminate", json!({ "processId": "two" })).await,
    ];
    let mut open = vec![one, two, ends[0], ends[1]];
    while !open.is_empty() {
        let message = soon(server.next()).await.expect("the server is running");
        let Some(id) = message["id"].as_u64() else { continue };
        let expected = if id == one || id == two {
            json!({ "exitCode": 137, "stdout": "", "stderr": "" })
        } else {
            json!({})
        };
        assert_eq!(message["result"], expected, "{message}");
        open.retain(|other| *other != id);
    }
    server.close();
    server.process.expect_success().await;
}
