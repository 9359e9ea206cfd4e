//! A program that uses the `codex-runtime` crate: one prompt, then several in one place.

use std::{env, error::Error};

use codex_runtime::{Workflow, WorkflowConfig, quick_run};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let work = env::var("WORK")?;
    let once = quick_run(&work, "stream please").await?;
    assert_eq!(once.assistant_text, "One two three four five, said the scripted model.");

    let workflow = Workflow::connect(WorkflowConfig::new(&work)).await?;
    assert_eq!(workflow.run("and again").await?.assistant_text, "You said: and again");
    assert!(workflow.run("run a command").await?.assistant_text.contains("from-the-shell"));
    workflow.shutdown().await?;
    Ok(())
}
