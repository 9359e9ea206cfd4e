//! Survives `kill -9` of the server, in the middle of a turn and in the middle of an approval. Runs offline with the
//! scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-client --example resilient -- target/debug/codicil
//! ```

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use codicil_client::{
    ApprovalDecision, Client, ClientError, ClientEvent, ReconnectOptions, UnixSocket, ask,
    protocol::{AskForApproval, ServerNotification, ThreadStartParams, TurnStatus},
    turn,
};
use tokio::{
    process::{Child, Command},
    sync::{Notify, mpsc},
    time::sleep,
};

type Failure = Box<dyn std::error::Error>;

/// Starts the server. It is a process of its own, so that this program can kill it.
fn start_server(program: &str, socket: &Path) -> std::io::Result<Child> {
    let address = format!("unix://{}", socket.display());
    let arguments = ["app-server", "-c", "model_provider=scripted", "--listen", &address];
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Kills the server and starts another one.
async fn replace_server(server: &mut Child, program: &str, socket: &Path) -> std::io::Result<()> {
    server.kill().await?;
    println!("killed the server with SIGKILL");
    *server = start_server(program, socket)?;
    println!("started another server");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let work = tempfile::tempdir()?;
    let socket = work.path().join("socket");
    let mut server = start_server(&program, &socket)?;

    // The approval is asked once; the person answers after the server was killed.
    let (asked, mut questions) = mpsc::channel(8);
    let decide = Arc::new(Notify::new());
    let decided = decide.clone();
    let handler = ask(move |_| {
        let asked = asked.clone();
        let decided = decided.clone();
        async move {
            // Fails when the program ends.
            let _ = asked.send(()).await;
            decided.notified().await;
            ApprovalDecision::Accept
        }
    });
    let builder = Client::builder().name("resilient", "1.0").handler(handler);
    let builder = builder.resilient(ReconnectOptions::default());
    let client = loop {
        match builder.clone().connect(UnixSocket::new(&socket)).await {
            // The server does not listen yet.
            Err(ClientError::Connect { .. }) => sleep(Duration::from_millis(50)).await,
            connected => break connected?,
        }
    };
    let mut connections = client.connections();
    let thread = client
        .start_thread(ThreadStartParams {
            cwd: Some(work.path().to_string_lossy().into_owned()),
            approval_policy: Some(AskForApproval::Untrusted),
            ..Default::default()
        })
        .await?;

    let mut running = client.turn(turn(&thread.id, "Hello")).await?;
    let mut deltas = 0;
    while let Some(event) = running.next().await {
        match event {
            ClientEvent::Notification(ServerNotification::AgentMessageDelta(_)) => {
                deltas += 1;
                if deltas == 3 {
                    replace_server(&mut server, &program, &socket).await?;
                }
            }
            ClientEvent::Notification(ServerNotification::TurnCompleted(end)) => {
                println!("connected again, and learned that the turn is {:?}", end.turn.status);
            }
            _ => {}
        }
    }
    match running.finish().await {
        Err(ClientError::TurnCancelled(_)) => println!("the answer was cut off; asking once more"),
        other => println!("unexpected: {other:?}"),
    }
    println!("{}", client.run_turn(turn(&thread.id, "Hello")).await?.agent_message);

    let before = *connections.borrow_and_update();
    let turn = client.turn(turn(&thread.id, "Leave a note")).await?;
    let turn_id = turn.id().clone();
    let (done, replaced) = tokio::join!(turn.finish(), async {
        questions.recv().await.ok_or("no approval")?;
        println!("the agent asks for an approval");
        replace_server(&mut server, &program, &socket).await?;
        connections.wait_for(|count| *count > before).await?;
        println!("connected again; the person approves now");
        decide.notify_one();
        Ok::<(), Failure>(())
    });
    replaced?;
    let done = done?;
    assert!(done.turn.id == turn_id && done.turn.status == TurnStatus::Completed);
    println!("the same turn has completed: {}", done.agent_message.lines().next().unwrap_or_default());
    println!("asked once: {}", questions.try_recv().is_err());
    println!("there is a note: {}", work.path().join("codicil-note.md").exists());
    client.close().await;
    Ok(())
}
