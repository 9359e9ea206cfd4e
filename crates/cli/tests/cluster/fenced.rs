//! A server that cannot reach the database ends its commands before another server takes its threads.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use codicil_protocol::TurnStatus;
use codicil_testkit::{App, RecordedRequest, Reply, Script, TestTransport};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    database::{TestDatabase, TestPostgres},
    server,
};

/// A TCP proxy before the database that can stop to forward anything, as a cut network does.
struct BlockableProxy {
    port: u16,
    is_blocked: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl BlockableProxy {
    async fn start(server: &TestPostgres) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = server.socket_directory().join(".s.PGSQL.5432");
        let is_blocked = watch::Sender::new(false);
        let blocked = is_blocked.subscribe();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, socket.clone(), blocked.clone()));
            }
        });
        Self { port, is_blocked, task }
    }
}

impl Drop for BlockableProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forwards a connection, and keeps it open without forwarding once the proxy is blocked.
async fn forward(mut client: TcpStream, socket: PathBuf, mut blocked: watch::Receiver<bool>) {
    let Ok(mut server) = UnixStream::connect(&socket).await else { return };
    tokio::select! {
        biased;
        () = until_blocked(&mut blocked) => std::future::pending().await,
        _ = copy_bidirectional(&mut client, &mut server) => {}
    }
}

async fn until_blocked(blocked: &mut watch::Receiver<bool>) {
    // Fails if the proxy is gone, and with it this task.
    let _ = blocked.wait_for(|is_blocked| *is_blocked).await;
}

/// Has the thread and its subagent each run a command that does not end and writes its process id.
fn reply(request: &RecordedRequest, directory: &Path) -> Reply {
    let run = |name: &str| {
        let command = format!("echo $$ > {}/{name}; exec sleep 600", directory.display());
        let arguments = json!({ "cmd": command, "yield_time_ms": 30_000 });
        Reply::new().call("exec_command", arguments).call_id(name)
    };
    match request.last_user_text().as_deref() {
        Some("child") => run("child"),
        _ if request.tool_output("spawn").is_none() => {
            Reply::new().call("spawn_agent", json!({ "message": "child" })).call_id("spawn")
        }
        _ => run("root"),
    }
}

/// Waits until a command has written its process id.
async fn process_of(path: &Path) -> u32 {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some(id) = text.strip_suffix('\n') {
            return id.parse().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{} does not run", path.display());
        tokio::task::yield_now().await;
    }
}

fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    state.flatten().is_some_and(|state| state != 'Z')
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_database_ends_its_commands_before_the_takeover() {
    let Some(database) = TestDatabase::create().await else { return };
    let proxy = BlockableProxy::start(&database.server).await;
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().to_owned();
    let script = Script::new().respond_with(move |request| reply(request, &target));
    let config = "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n";
    let address = database.address_at(proxy.port);
    let mut app = App::builder()
        .script(script)
        .config(config)
        .experimental()
        .over(TestTransport::Stdio)
        .arguments(["--store", &address])
        .start()
        .await;
    let mut beside = server(&database, Script::new().repeat(Reply::new().say("done"))).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;
    let root = process_of(&directory.path().join("root")).await;
    let child = process_of(&directory.path().join("child")).await;
    assert!(is_running(root) && is_running(child));

    proxy.is_blocked.send_replace(true);
    let cut = Instant::now();
    let raw = database.raw().await;
    let sql = format!("select epoch from codicil_lease where thread = '{}'", thread.id);
    while raw.row(&sql).await.get::<_, i64>(0) == 1 {
        assert!(cut.elapsed() < Duration::from_secs(60), "not taken over");
        tokio::task::yield_now().await;
    }
    assert!(!is_running(root), "the command of the thread still runs after {:?}", cut.elapsed());
    assert!(!is_running(child), "the command of the subagent still runs after {:?}", cut.elapsed());
    // The server that has taken the thread ends its turn.
    while beside.read(&thread).await.turns.last().is_none_or(|turn| turn.status != TurnStatus::Interrupted) {
        assert!(cut.elapsed() < Duration::from_secs(60), "the turn is not settled");
        tokio::task::yield_now().await;
    }
    app.ignore_rest();
    beside.ignore_rest();
    drop(app);
    drop(beside);
    database.check().await;
}
