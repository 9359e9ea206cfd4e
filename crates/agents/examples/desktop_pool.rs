//! Runs a desktop with windows on one server. Runs offline with the scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-agents --example desktop_pool -- target/debug/codicil
//! ```

use codicil_agents::{
    client::ApprovalDecision,
    pool::{BuiltinTool, Pool, PoolError, PoolSettings, ReplyStream, ServerCommand, StreamMessage},
};

/// Prints a reply as a product would show it.
async fn show(name: &str, pool: &Pool, mut reply: ReplyStream) -> Result<(), PoolError> {
    let mut line = String::new();
    while let Some(message) = reply.next().await {
        match message {
            StreamMessage::Text { text } => line.push_str(&text),
            // A product would open a dialog here.
            StreamMessage::ApprovalRequest { id, .. } => pool.decide(id, ApprovalDecision::Decline)?,
            StreamMessage::Diff { diff, state, .. } => println!("{name} edits files [{state:?}]:\n{diff}"),
            StreamMessage::ToolUse { name: tool, .. } => println!("{name} uses {tool}"),
            StreamMessage::Error { message, .. } => println!("{name} failed: {message}"),
            StreamMessage::Complete { status, .. } => println!("{name} [{status:?}]: {line}"),
            _ => {}
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), PoolError> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let command = ServerCommand {
        disabled: vec![BuiltinTool::Shell],
        settings: vec![("model_provider".to_owned(), "scripted".to_owned())],
        ..ServerCommand::new(program)
    };
    let instructions = "You are a desktop: brief, and fond of windows.".to_owned();
    let pool =
        Pool::start(PoolSettings { instructions, warm_threads: 2, ..PoolSettings::new(command.launch()) })
            .await?;
    println!("{} warm threads", pool.warm_threads());

    let desktop = pool.agent().await?;
    show("desktop", &pool, desktop.ask("Hello!")).await?;

    // Windows know the conversation so far, and continue it independently of each other.
    let notes = desktop.window().await?;
    let mail = desktop.window().await?;
    tokio::try_join!(
        show("notes", &pool, notes.ask("Hi from the notes")),
        show("mail", &pool, mail.ask("Hi from the mail")),
    )?;

    let counts = pool.counts();
    println!(
        "{} turns on {} server, {} forks",
        counts.turns_completed, counts.servers_started, counts.threads_forked
    );
    pool.close().await;
    Ok(())
}
