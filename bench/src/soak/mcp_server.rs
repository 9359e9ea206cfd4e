//! A small MCP server over standard input and output, for the soak: one tool, which returns its argument.

use std::io::{BufRead, Write};

use anyhow::Result;
use serde_json::{Value, json};

pub fn serve() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        if let (Some(id), Some(result)) = (request.get("id"), answer(&request)) {
            writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
            out.flush()?;
        }
    }
    Ok(())
}

fn answer(request: &Value) -> Option<Value> {
    match request["method"].as_str()? {
        "initialize" => Some(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "soak", "version": "1" },
        })),
        "tools/list" => Some(json!({ "tools": [{
            "name": "echo", "description": "Returns its text.",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }] })),
        "tools/call" => {
            let text = &request["params"]["arguments"]["text"];
            Some(json!({ "content": [{ "type": "text", "text": text }] }))
        }
        _ => Some(json!({})),
    }
}
