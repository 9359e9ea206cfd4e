//! Runs one streamed turn. Runs offline with the scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-client --example quickstart -- target/debug/codicil
//! ```

use std::io::Write;

use codicil_client::{Client, ClientError, ClientEvent, ServerLaunch, protocol::ServerNotification, turn};

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let server = ServerLaunch::new(program).config("model_provider", "scripted");
    let client = Client::builder().name("quickstart", "1.0").connect(server).await?;

    let thread = client.start_thread(Default::default()).await?;
    let mut running = client.turn(turn(&thread.id, "Hello!")).await?;
    while let Some(event) = running.next().await {
        if let ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta)) = event {
            print!("{}", delta.delta);
            // Ignored: the terminal may be closed.
            let _ = std::io::stdout().flush();
        }
    }
    let done = running.finish().await?;
    println!("\n({} items in turn {})", done.items.len(), done.session_id());
    client.close().await;
    Ok(())
}
