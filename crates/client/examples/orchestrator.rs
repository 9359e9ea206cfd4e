//! Runs many threads on one supervised server. Runs offline with the scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-client --example orchestrator -- target/debug/codicil
//! ```

use std::sync::Arc;

use codicil_client::{Client, ClientError, RestartLimits, ServerLaunch, Supervisor, turn};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let server = ServerLaunch::new(program).config("model_provider", "scripted");
    let builder = Client::builder().name("orchestrator", "1.0");
    let supervisor = Arc::new(Supervisor::start(builder, server, RestartLimits::default()).await?);

    let mut workers = JoinSet::new();
    for number in 1..=20 {
        let supervisor = supervisor.clone();
        workers.spawn(async move {
            let thread = supervisor.start_thread(Default::default()).await?;
            supervisor.run_turn(turn(&thread.id, format!("Hello from worker {number}"))).await
        });
    }
    while let Some(joined) = workers.join_next().await {
        match joined {
            Ok(Ok(done)) => println!("{}: {}", done.session_id(), done.agent_message),
            Ok(Err(error)) => eprintln!("{}: {error}", error.name()),
            Err(panic) => eprintln!("a worker failed: {panic}"),
        }
    }
    Ok(())
}
