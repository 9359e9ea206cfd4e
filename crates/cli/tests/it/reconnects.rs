//! A client that reconnects, with the real binary that is killed: nothing is lost and nothing arrives twice.
//!
//! `CODICIL_KILLS` sets the number of kills.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use codicil_client::{
    ApprovalDecision, ApprovalRequest, Client, ClientBuilder, ClientError, ClientEvent, EventStream,
    IncludeTurns, ReconnectOptions, ServerLaunch, UnixSocket, WebSocket, ask, protocol::*, turn,
};
use codicil_testkit::{ModelServer, RecordedRequest, Reply, Script, ServerProcess};
use futures_util::FutureExt;
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc},
    task::unconstrained,
};

use crate::{client::home, soon, unix::connect};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_unix_socket_whose_server_is_killed() {
    let model = model().await;
    let home = home(&model);
    let mut server = SocketServer::start(home.path()).await;
    let client = soon(resilient().connect(server.address())).await.unwrap();
    run_turns(&client, async |_| server.replace().await).await;
    soon(client.close()).await;
}

/// A server at a unix socket in its home.
struct SocketServer {
    process: ServerProcess,
    home: PathBuf,
}

impl SocketServer {
    async fn start(home: &Path) -> Self {
        let server = Self { process: Self::spawn(home), home: home.to_owned() };
        drop(connect(&Self::path(home)).await);
        server
    }

    fn path(home: &Path) -> PathBuf {
        home.join("socket")
    }

    fn spawn(home: &Path) -> ServerProcess {
        let listen = format!("unix://{}", Self::path(home).display());
        ServerProcess::spawn(home, ["app-server", "--listen", &listen])
    }

    fn address(&self) -> UnixSocket {
        UnixSocket::new(Self::path(&self.home))
    }

    /// Kills the server and starts another one.
    async fn replace(&mut self) {
        self.process.kill();
        self.process.wait().await;
        self.process = Self::spawn(&self.home);
    }
}

/// Returns a builder whose handler reports each approval and accepts it once it is let to.
fn approving() -> (ClientBuilder, mpsc::UnboundedReceiver<ApprovalRequest>, Arc<Semaphore>) {
    let (asked, questions) = mpsc::unbounded_channel();
    let decide = Arc::new(Semaphore::new(0));
    let decided = decide.clone();
    let builder = resilient().handler(ask(move |approval| {
        // Fails at the end of the test.
        let _ = asked.send(approval);
        let decided = decided.clone();
        async move {
            decided.acquire().await.unwrap().forget();
            ApprovalDecision::Accept
        }
    }));
    (builder, questions, decide)
}

async fn start_thread_in(client: &Client, work: &Path) -> Thread {
    let params = ThreadStartParams {
        cwd: Some(work.to_string_lossy().into_owned()),
        approval_policy: Some(AskForApproval::OnRequest),
        ..Default::default()
    };
    soon(client.start_thread(params)).await.unwrap()
}

fn lines(work: &Path) -> String {
    fs::read_to_string(work.join("lines")).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_asked_once_and_answered_after_the_server_was_killed() {
    let model = ModelServer::start(Script::new().append_lines()).await;
    let home = home(&model);
    let work = tempfile::tempdir().unwrap();
    let mut server = SocketServer::start(home.path()).await;
    let (builder, mut questions, decide) = approving();
    let client = soon(builder.connect(server.address())).await.unwrap();
    let mut connections = client.connections();
    let thread = start_thread_in(&client, work.path()).await;
    for round in 1..=3 {
        let call = format!("call-{round}");
        let running = soon(client.turn(turn(&thread.id, &*call))).await.unwrap();
        let turn_id = running.id().clone();
        soon(questions.recv()).await.unwrap();
        server.replace().await;
        soon(connections.wait_for(|count| *count > round)).await.unwrap();
        decide.add_permits(1);
        let done = soon(running.finish()).await.unwrap();
        assert_eq!((done.turn.id, done.turn.status), (turn_id, TurnStatus::Completed));
    }
    assert_eq!(lines(work.path()), "call-1\ncall-2\ncall-3\n", "each command ran once");
    assert!(questions.try_recv().is_err(), "asked once for each command");
    soon(client.close()).await;
}

fn is_subagent(request: &RecordedRequest) -> bool {
    request.header("x-openai-subagent").is_some()
}

/// A model whose main thread starts a subagent in its second turn. The subagent appends a line to the file `lines`.
async fn delegating_model() -> ModelServer {
    let append = json!({ "cmd": "echo agent >> lines", "sandbox_permissions": "require_escalated" });
    let script = Script::new()
        .reply(Reply::new().say("ready"))
        .reply(Reply::new().gate("spawn").call("spawn_agent", json!({ "message": "sub task" })))
        .reply(Reply::new().call("exec_command", append).when(is_subagent))
        .reply(Reply::new().gate("main").say("delegated").when(|request| !is_subagent(request)))
        .reply(Reply::new().say("sub answer").when(is_subagent))
        .repeat(Reply::new().say("noted"));
    ModelServer::start(script).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subagent_that_starts_after_a_reconnect_is_followed_and_asks() {
    let model = delegating_model().await;
    let home = home(&model);
    let work = tempfile::tempdir().unwrap();
    let mut server = SocketServer::start(home.path()).await;
    let (builder, mut questions, decide) = approving();
    let client = soon(builder.connect(server.address())).await.unwrap();
    let mut connections = client.connections();
    let thread = start_thread_in(&client, work.path()).await;
    let mut events = client.events();
    soon(client.run_turn(turn(&thread.id, "get ready"))).await.unwrap();
    server.replace().await;
    soon(connections.wait_for(|count| *count > 1)).await.unwrap();

    let running = soon(client.turn(turn(&thread.id, "delegate"))).await.unwrap();
    model.release("spawn");
    let asked = soon(questions.recv()).await.unwrap();
    let ApprovalRequest::Command(asked) = asked else { panic!("{asked:?}") };
    assert_ne!(asked.thread_id, thread.id, "the subagent asks");
    decide.add_permits(1);
    until_turn_end(&mut events, &asked.thread_id).await;
    model.release("main");
    soon(running.finish()).await.unwrap();
    assert_eq!(lines(work.path()), "agent\n");
    soon(client.close()).await;
}

/// Reads until a turn of this thread has ended.
async fn until_turn_end(events: &mut EventStream, thread: &ThreadId) {
    loop {
        match soon(events.next()).await.unwrap() {
            ClientEvent::Notification(ServerNotification::TurnCompleted(end)) if end.thread_id == *thread => {
                return;
            }
            _ => {}
        }
    }
}
