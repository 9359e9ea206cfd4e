//! A client that reconnects, with the real binary that is killed: nothing is lost and nothing arrives twice.
//!
//! `CODICIL_KILLS` sets the number of kills.

use std::{collections::BTreeMap, env, fs, path::Path, time::Duration};

use codicil_client::{
    Client, ClientBuilder, ClientError, ClientEvent, EventStream, IncludeTurns, ReconnectOptions,
    ServerLaunch, WebSocket, protocol::*, turn,
};
use codicil_testkit::{ModelServer, Reply, Script, ServerProcess};
use futures_util::FutureExt;
use tokio::task::unconstrained;

use crate::{client::home, soon};

fn kills() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8)
}

async fn model() -> ModelServer {
    let reply = Reply::new().say_deltas(["one ", "two ", "three"]).say_deltas(["four ", "five"]);
    ModelServer::start(Script::new().repeat(reply)).await
}

fn resilient() -> ClientBuilder {
    Client::builder().resilient(ReconnectOptions {
        first_delay: Duration::from_millis(5),
        // The kills follow each other quickly.
        stable_after: Duration::ZERO,
        ..ReconnectOptions::default()
    })
}

/// Returns how often each item was reported as completed.
fn completed_items(events: &mut EventStream) -> BTreeMap<ItemId, usize> {
    let mut items = BTreeMap::new();
    // Without tokio's budget, which would end the loop before the queue is empty.
    while let Some(Some(event)) = unconstrained(events.next()).now_or_never() {
        match event {
            ClientEvent::Notification(ServerNotification::ItemCompleted(completed)) => {
                *items.entry(completed.item.id().unwrap().clone()).or_default() += 1;
            }
            ClientEvent::Notification(_) => {}
            other => panic!("{other:?}"),
        }
    }
    items
}

/// Runs turns, and kills the server after another number of events each time.
async fn run_turns(client: &Client, mut kill: impl AsyncFnMut(usize)) {
    let thread = soon(client.start_thread(Default::default())).await.unwrap();
    let mut all = client.thread_events(&thread.id);
    for round in 0..kills() {
        let mut running = soon(client.turn(turn(&thread.id, format!("question {round}")))).await.unwrap();
        let mut seen = 0;
        while let Some(event) = soon(running.next()).await {
            assert!(matches!(event, ClientEvent::Notification(_)), "{event:?}");
            if seen == round % 12 {
                kill(round).await;
            }
            seen += 1;
        }
        if seen <= round % 12 {
            kill(round).await;
        }
        match soon(running.finish()).await {
            Ok(_) | Err(ClientError::TurnCancelled(_)) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    let done = soon(client.run_turn(turn(&thread.id, "the last question"))).await.unwrap();
    assert_eq!(done.agent_message, "four five");

    let read = soon(client.read_thread(&thread.id, IncludeTurns::Yes)).await.unwrap();
    assert_eq!(read.turns.len(), kills() + 1, "each turn was started once");
    let stored = read.turns.iter().flat_map(|turn| &turn.items);
    let stored: BTreeMap<_, _> = stored.map(|item| (item.id().unwrap().clone(), 1)).collect();
    assert_eq!(completed_items(&mut all), stored, "each stored item arrived once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_child_process_that_is_killed() {
    let model = model().await;
    let home = home(&model);
    let pid_file = home.path().join("pid");
    let script =
        format!("echo $$ > {}; exec {} app-server", pid_file.display(), env!("CARGO_BIN_EXE_codicil"));
    let launch = ServerLaunch::command(["sh", "-c", &script]).env("CODICIL_HOME", home.path());
    let launch = launch.env("HOME", home.path()).env_remove("RUST_LOG");
    let client = soon(resilient().connect(launch)).await.unwrap();
    run_turns(&client, async |_| kill_process(&pid_file)).await;
    assert_eq!(*client.connections().borrow(), 1 + kills() as u64);
    soon(client.close()).await;
}

fn kill_process(pid_file: &Path) {
    let pid: i32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_websocket_whose_server_is_killed() {
    let model = model().await;
    let home = home(&model);
    let mut server = ServerProcess::spawn(home.path(), ["app-server", "--listen", "ws://127.0.0.1:0"]);
    let address = format!("ws://{}", server.announced_address().await);
    let client = soon(resilient().connect(WebSocket::new(&address))).await.unwrap();
    run_turns(&client, async |_| {
        server.kill();
        server.wait().await;
        server = ServerProcess::spawn(home.path(), ["app-server", "--listen", &address]);
        server.announced_address().await;
    })
    .await;
    soon(client.close()).await;
}
