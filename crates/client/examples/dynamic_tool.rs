//! Offers a tool that runs in the client. Runs offline with a model that follows a script:
//!
//! ```sh
//! cargo build && cargo run -p codicil-client --example dynamic_tool -- target/debug/codicil
//! ```

use std::{fs, path::Path};

use codicil_client::{Client, ClientTools, ServerLaunch, turn};
use serde_json::{Value, json};

/// The model's script: it calls the tool and reports the output.
const SCRIPT: &str = r#"
[[reply]]
when = { step = 0 }
steps = [{ say = "Let me look at the ticket." }, { call = "ticket", args = { id = "T-7" } }]

[[reply]]
when = { step = 1 }
steps = [{ say = "The ticket says: {output}" }]
"#;

async fn read_ticket(arguments: Value) -> Result<String, String> {
    match arguments.get("id").and_then(Value::as_str) {
        Some("T-7") => Ok("the door squeaks".to_owned()),
        Some(other) => Err(format!("there is no ticket {other}")),
        None => Err("which ticket?".to_owned()),
    }
}

fn server(program: String, script: &Path) -> ServerLaunch {
    ServerLaunch::new(program)
        .config("model_provider", "demo")
        .config("model_providers.demo.name", "demo")
        .config("model_providers.demo.wire_api", "scripted")
        .config("model_providers.demo.script", json!(script))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("script.toml");
    fs::write(&script, SCRIPT)?;

    let schema =
        json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
    let tools = ClientTools::new().add("ticket", "Reads a ticket.", schema, read_ticket);
    let builder = Client::builder().name("dynamic-tool", "1.0").tools(tools);
    let client = builder.connect(server(program, &script)).await?;

    let thread = client.start_thread(Default::default()).await?;
    let done = client.run_turn(turn(&thread.id, "What is T-7 about?")).await?;
    println!("{}", done.agent_message);
    client.close().await;
    Ok(())
}
