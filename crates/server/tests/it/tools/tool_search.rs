//! MCP servers with too many tools to offer all of them: the model searches for tools.

use std::fs;

use codicil_protocol::ThreadItem;
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::{call_output, thread};

/// An MCP server with the tools of a file. Each tool returns its own name.
const SERVER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result=$(cat "$0.tools");;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"called"}]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

fn tool(name: &str, about: &str) -> Value {
    json!({ "name": name, "description": about, "inputSchema": { "type": "object", "properties": {} },
        "annotations": { "readOnlyHint": true } })
}

#[tokio::test]
async fn the_tools_of_a_large_server_are_found_by_searching() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server.sh");
    fs::write(&program, SERVER).unwrap();
    let mut tools: Vec<_> = (0..120).map(|n| tool(&format!("filler{n}"), "Does nothing")).collect();
    tools.push(tool("open_ticket", "Opens a ticket in the tracker"));
    fs::write(folder.path().join("server.sh.tools"), json!({ "tools": tools }).to_string()).unwrap();
    let config = format!("[mcp_servers.many]\ncommand = \"sh\"\nargs = [\"{}\"]\n", program.display());
    let script = Script::new()
        .call("tool_search", json!({ "query": "open ticket", "limit": 1 }))
        .then()
        .call("mcp__many__open_ticket", json!({}))
        .call_id("t")
        .then()
        .say("Done");
    let mut app = App::builder().config(&config).script(script).start().await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never" })).await;
    let turn = app.run_turn(&thread, "go").await;
    app.ignore_rest();

    assert!(call_output(&app, "t").contains("called"), "{}", call_output(&app, "t"));
    let requests = app.model().requests();
    let from_server = |number: usize| {
        let tools = requests[number].tools();
        tools
            .into_iter()
            .filter(|name| name.starts_with("mcp__many__"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(from_server(0), [""; 0]);
    assert!(requests[0].tools().contains(&"tool_search"));
    assert_eq!(from_server(1), ["mcp__many__open_ticket"]);
    let stored = app.read(&thread).await;
    let items = &stored.turns.iter().find(|stored| stored.id == turn.id).unwrap().items;
    assert!(items.iter().any(|item| matches!(item, ThreadItem::McpToolCall { .. })));
}
