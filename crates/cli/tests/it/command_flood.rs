//! A command that floods a client which does not read: the command waits, and memory stays where it was.

use std::{fs, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use crate::{raw::Raw, soon};

/// Bytes the process has written so far, to whatever.
fn written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// Returns when the server has stopped writing. Nobody is told of that, so this looks again and again.
async fn until_stuck(pid: u32) {
    let mut last = u64::MAX;
    let mut same = 0;
    while same < 5 {
        let now = written(pid);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        sleep(Duration::from_millis(40)).await;
    }
}

#[tokio::test]
async fn a_flood_waits_for_its_reader_and_can_be_ended_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Raw::start(home.path(), |_| {}).await;
    let params = |id: &str| {
        json!({ "command": ["yes"], "processId": id, "streamStdoutStderr": true, "disableOutputCap": true,
            "disableTimeout": true, "sandboxPolicy": { "type": "dangerFullAccess" } })
    };
    let warm = json!({ "command": ["true"], "sandboxPolicy": { "type": "dangerFullAccess" } });
    server.call("command/exec", warm).await;
    let before = server.process.resident_kib();

    let one = server.send("command/exec", params("one")).await;
    let two = server.send("command/exec", params("two")).await;
    soon(until_stuck(server.process.id())).await;
    let grown = server.process.peak_kib().saturating_sub(before) >> 10;
    assert!(grown <= 20, "{grown} MiB more");

    // Sent while nothing is read, and served all the same.
    let ends = [
        server.send("command/exec/terminate", json!({ "processId": "one" })).await,
        server.send("command/exec/terminate", json!({ "processId": "two" })).await,
    ];
    let mut open = vec![one, two, ends[0], ends[1]];
    while !open.is_empty() {
        let message = soon(server.next()).await.expect("the server goes on");
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
