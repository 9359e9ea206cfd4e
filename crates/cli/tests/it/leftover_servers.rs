//! However a server ends, no MCP server that it started is left, nor anything that those started.
//!
//! `CODICIL_KILLS=100` makes it a hundred servers instead of fifteen.

use std::{env, fs, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    leftovers::{end, until_none_is_left},
    raw::Raw,
};

/// Starts what `leftovers.rs` starts, and answers as an MCP server that has no tools.
const ANSWERS: &str = r#"sleep 1000 & (sleep 1000 & sleep 1000) & timeout 1000 sleep 1000 &
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}";;
    *'"method":"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[]}}";;
  esac
done"#;

/// Never answers, and does not end with its input.
const MUTE: &str = "sleep 1000 & exec sleep 1000";

/// Ends by itself and leaves a child behind.
const LEAVES: &str = "sleep 1000 & sleep 0.02";

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(15)
}

/// The servers of one round, of every kind.
fn servers(mark: &str, random: &mut fastrand::Rng) -> Map<String, Value> {
    let server = |number: usize| {
        let script = [ANSWERS, ANSWERS, MUTE, LEAVES][random.usize(..4)];
        let server = json!({ "command": "sh", "args": ["-c", script], "env": { "LEFTOVER_MARK": mark } });
        (format!("s{number}"), server)
    };
    (0..3).map(server).collect()
}

#[tokio::test]
async fn no_mcp_server_is_left_of_a_server_that_ends_at_any_instant() {
    let mut random = fastrand::Rng::new();
    let seed = random.get_seed();
    let [home, workspace, temporary] = [(); 3].map(|()| tempfile::tempdir_in("/var/tmp").unwrap());
    let (mut started, mut ready) = (0, 0);
    for round in 0..kills() {
        let mark = format!("mcp-{}-{round}", std::process::id());
        let mut server = Raw::start(home.path(), |command| {
            command.current_dir(workspace.path()).env("TMPDIR", temporary.path());
        })
        .await;
        let servers = servers(&mark, &mut random);
        started += servers.len();
        let config = json!({ "mcp_servers": servers });
        server.call("thread/start", json!({ "ephemeral": true, "config": config })).await;
        // The instant is what this is about, so it is left to chance.
        let instant = tokio::time::Instant::now() + Duration::from_millis(random.u64(0..150));
        while let Ok(Some(message)) = tokio::time::timeout_at(instant, server.next()).await {
            ready += usize::from(message["params"]["status"] == "ready");
        }
        let seen = format!("round {round}, {}, seed {seed:#x}", end(&mut server, &mut random).await);
        until_none_is_left(&mark, &seen).await;
        for place in [&workspace, &temporary] {
            let litter: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
            assert!(litter.is_empty(), "{litter:?}: {seen}");
        }
    }
    println!("{started} MCP servers, {ready} of them ready, of {} servers", kills());
    assert!(ready > 0, "none was ever ready");
}
