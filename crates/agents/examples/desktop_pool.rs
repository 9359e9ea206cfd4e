//! A desktop with windows on one server. Runs offline with the scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-agents --example desktop_pool -- target/debug/codicil
//! ```

use codicil_agents::{
    client::ApprovalDecision,
    pool::{Pool, PoolError, PoolSettings, ReplyStream, ServerCommand, StreamMessage},
};

/// Shows a reply as a product would, one line a message.
async fn show(name: &str, pool: &Pool, mut reply: ReplyStream) -> Result<(), PoolError> {
    let mut line = String::new();
    while let Some(message) = reply.next().await {
        match message {
            StreamMessage::Text { text } => line.push_str(&text),
            // A dialog in the product; here nobody is there to say yes.
            StreamMessage::ApprovalRequest { id, .. } => pool.decide(id, ApprovalDecision::Decline)?,
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
        settings: vec![("model_provider".to_owned(), "scripted".to_owned())],
        ..ServerCommand::new(program)
    };
    let instructions = "You are a desktop: brief, and fond of windows.".to_owned();
    let pool =
        Pool::start(PoolSettings { instructions, warm: 2, ..PoolSettings::new(command.launch()) }).await?;
    println!("{} threads stand ready", pool.warm());

    let desktop = pool.agent().await?;
    show("desktop", &pool, desktop.ask("Hello!")).await?;

    // Windows know what was said before, and go their own ways, side by side.
    let (notes, mail) = (desktop.window().await?, desktop.window().await?);
    let (first, second) = (notes.ask("Hi from the notes"), mail.ask("Hi from the mail"));
    tokio::try_join!(show("notes", &pool, first), show("mail", &pool, second))?;

    let counts = pool.counts();
    println!(
        "{} turns on {} server, {} forks",
        counts.turns_completed, counts.servers_started, counts.threads_forked
    );
    pool.close().await;
    Ok(())
}
