//! However a server ends, none of its MCP servers is left, nor their children.
//!
//! `CODICIL_KILLS=100` tests a hundred servers instead of fifteen.

use std::{env, fs, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    leftovers::{end, until_none_is_left},
    raw_server::RawServer,
};

/// Starts the processes of `leftovers.rs`, and answers as an MCP server without tools.
const ANSWERING: &str = r#"sleep 1000 & (sleep 1000 & sleep 1000) & timeout 1000 sleep 1000 &
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}}";;
    *'"method":"tools/list"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[]}}";;
  esac
done"#;

/// Never answers, and does not end with its input.
const SILENT: &str = "sleep 1000 & exec sleep 1000";

/// Ends by itself and leaves a child behind.
const LEAVES_CHILD: &str = "sleep 1000 & sleep 0.02";

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(15)
}

/// Returns the servers of one round: one that answers, and others of random kinds.
fn servers(mark: &str, random: &mut fastrand::Rng) -> Map<String, Value> {
    let server = |number: usize| {
        let others = [ANSWERING, SILENT, LEAVES_CHILD];
        let script = if number == 0 { ANSWERING } else { others[random.usize(..others.len())] };
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
    let mut started = 0;
    let mut ready = 0;
    for round in 0..kills() {
        let mark = format!("mcp-{}-{round}", std::process::id());
        let mut server = RawServer::start(home.path(), |command| {
            command.current_dir(workspace.path()).env("TMPDIR", temporary.path());
        })
        .await;
        let servers = servers(&mark, &mut random);
        started += servers.len();
        let config = json!({ "mcp_servers": servers });
        server.call("thread/start", json!({ "ephemeral": true, "config": config })).await;
        // In every third round the server ends once one of them is ready, which takes long on a busy machine.
        let mut may_end = !round.is_multiple_of(3);
        while !may_end {
            let message = server.next().await.expect("a server becomes ready");
            may_end = message["params"]["status"] == "ready";
            ready += usize::from(may_end);
        }
        // The instant of the end is random on purpose. Until then, the client reads.
        let instant = tokio::time::Instant::now() + Duration::from_millis(random.u64(0..150));
        while let Ok(Some(message)) = tokio::time::timeout_at(instant, server.next()).await {
            ready += usize::from(message["params"]["status"] == "ready");
        }
        let context = format!("round {round}, {}, seed {seed:#x}", end(&mut server, &mut random).await);
        until_none_is_left(&mark, &context).await;
        for folder in [&workspace, &temporary] {
            let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
            assert!(files.is_empty(), "{files:?}: {context}");
        }
    }
    println!("{started} MCP servers, {ready} of them ready, of {} servers", kills());
    assert!(ready > 0, "none was ever ready");
}
