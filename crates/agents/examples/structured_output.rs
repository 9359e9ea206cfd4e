//! Evaluates a prompt with a tool and a workspace to a Rust value. Runs offline: the model follows the script beside
//! this file.
//!
//! ```sh
//! cargo build && cargo run -p codicil-agents --example structured_output -- target/debug/codicil
//! ```

use std::{error::Error, path::absolute, time::Duration};

use codicil_agents::{
    evaluate::{
        ClientConfig, Evaluator, ModelConfig, Prompt, Section, Session, Tool, ToolContext, ToolError,
    },
    workspace::{HostMount, Workspace},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The answer of the model.
#[derive(Deserialize, JsonSchema)]
struct Summary {
    /// One line.
    title: String,
    /// The files that matter.
    files: Vec<String>,
    line_count: u32,
}

/// The parameters of the tool.
#[derive(Deserialize, JsonSchema)]
struct CountLines {
    /// Relative to the working directory.
    path: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let home = env!("CARGO_MANIFEST_DIR");

    // The agent works on a copy of the examples.
    let mount = HostMount::new(format!("{home}/examples")).include("*.rs").max_bytes(1 << 20);
    let workspace = Workspace::builder().allow_root(home).mount(mount).create().await?;

    let root = workspace.path().to_owned();
    let count =
        Tool::new("count_lines", "Counts the lines of a file.", move |params: CountLines, _: ToolContext| {
            let file = root.join(params.path);
            async move {
                let text = tokio::task::spawn_blocking(move || std::fs::read_to_string(file)).await??;
                Ok::<_, ToolError>(text.lines().count().to_string())
            }
        });
    let prompt = Prompt::new("example/summary")
        .section(Section::new("Task", "Summarise the files in the working directory."))
        .workspace(&workspace)
        .tool(count);

    let mut config = ClientConfig { ephemeral: true, ..ClientConfig::default() };
    config.program = if program.contains('/') { absolute(program)? } else { program.into() };
    for setting in [
        "model_provider=offline".to_owned(),
        "model_providers.offline.name=offline".to_owned(),
        "model_providers.offline.wire_api=scripted".to_owned(),
        format!("model_providers.offline.script={home}/examples/structured_output.toml"),
    ] {
        config.args.extend(["-c".to_owned(), setting]);
    }
    let evaluator = Evaluator::new(config, ModelConfig::default())?;
    let session = Session::new();
    session.observe(|event| println!("- {}", event.name()));

    let evaluation = evaluator.evaluate(&prompt).session(&session).workspace(&workspace);
    let answer = evaluation.timeout(Duration::from_secs(60)).value::<Summary>().await?;
    let Summary { title, files, line_count } = answer.value;
    println!("{title}: {line_count} lines in {}", files.join(", "));
    println!("({} tokens)", answer.usage.map_or(0, |usage| usage.total_tokens));
    workspace.close().await?;
    Ok(())
}
