//! A client of the SDK that follows its threads from server to server.

use std::{collections::BTreeMap, fs, net::TcpListener, path::Path, time::Duration};

use codicil_client::{
    ApprovalDecision, Client, ClientBuilder, ClientError, ClientEvent, EventStream, IncludeTurns,
    ReconnectOptions, WebSocket, ask, protocol::*, resume, turn,
};
use codicil_testkit::{ModelServer, Script, ServerProcess};
use futures_util::FutureExt;
use serde_json::json;
use tokio::{sync::mpsc, task::unconstrained, time::timeout};

use crate::{codicil, database::TestDatabase, stdout};

/// Awaits an event that must happen. A takeover takes eight seconds, on a machine without load.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(120), event).await.expect("the event happens in time")
}

/// A model that runs a command for each text of the user, which appends the text to the file `lines`.
async fn model() -> ModelServer {
    ModelServer::start(Script::new().append_lines()).await
}

/// A server over the database, at an address of its own.
struct TestNode {
    process: ServerProcess,
    url: String,
    home: tempfile::TempDir,
}

impl TestNode {
    async fn start(database: &TestDatabase, model: &ModelServer) -> Self {
        Self::start_with(database, model, &[]).await
    }

    async fn start_with(database: &TestDatabase, model: &ModelServer, more: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
             base_url = \"{}\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
            model.base_url()
        );
        fs::write(home.path().join("config.toml"), config).unwrap();
        // The address is announced to other servers before the port is known, so it is chosen here.
        let url = free_address();
        let store = database.address();
        let arguments = ["app-server", "--listen", &url, "--store", &store];
        let mut process = ServerProcess::spawn(home.path(), arguments.iter().chain(more));
        process.announced_address().await;
        Self { process, url, home }
    }

    async fn connect(&self, builder: ClientBuilder) -> Client {
        soon(builder.connect(WebSocket::new(&self.url))).await.unwrap()
    }
}

/// Returns an address where nothing listens.
fn free_address() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("ws://127.0.0.1:{port}")
}

fn builder() -> ClientBuilder {
    Client::builder().resilient(ReconnectOptions::default()).request_timeout(Duration::from_secs(60))
}

/// A thread of the first node, and a client of the second one that follows it.
struct FollowedThread {
    database: TestDatabase,
    _model: ModelServer,
    workspace: tempfile::TempDir,
    owner: TestNode,
    others: Vec<TestNode>,
    client: Client,
    thread: ThreadId,
    events: EventStream,
    questions: mpsc::UnboundedReceiver<()>,
    /// Lets the handler accept the next question.
    accept: mpsc::UnboundedSender<()>,
}

impl FollowedThread {
    /// Returns `None` without PostgreSQL.
    async fn start(nodes: usize) -> Option<Self> {
        let database = TestDatabase::create().await?;
        let model = model().await;
        let workspace = tempfile::tempdir().unwrap();
        let owner = TestNode::start(&database, &model).await;
        let mut others = Vec::new();
        for _ in 1..nodes {
            others.push(TestNode::start(&database, &model).await);
        }
        let starter = owner.connect(builder()).await;
        let params = ThreadStartParams {
            cwd: Some(workspace.path().display().to_string()),
            approval_policy: Some(AskForApproval::OnRequest),
            ..Default::default()
        };
        let thread = soon(starter.start_thread(params)).await.unwrap().id;
        soon(starter.close()).await;

        let (asked, questions) = mpsc::unbounded_channel();
        let (accept, accepted) = mpsc::unbounded_channel::<()>();
        let accepted = std::sync::Arc::new(tokio::sync::Mutex::new(accepted));
        let handler = ask(move |_| {
            asked.send(()).unwrap();
            let accepted = accepted.clone();
            async move {
                accepted.lock().await.recv().await;
                ApprovalDecision::Accept
            }
        });
        let client = others[0].connect(builder().handler(handler)).await;
        let events = client.thread_events(&thread);
        soon(client.resume_thread(resume(&thread))).await.unwrap();
        let followed = Self {
            database,
            _model: model,
            workspace,
            owner,
            others,
            client,
            thread,
            events,
            questions,
            accept,
        };
        Some(followed)
    }

    /// Starts a turn and waits for its question.
    async fn ask(&mut self, text: &str) -> codicil_client::RunningTurn {
        let running = soon(self.client.turn(turn(&self.thread, text))).await.unwrap();
        soon(self.questions.recv()).await.unwrap();
        running
    }

    /// Checks that the turns have run once, with one question each, and that every stored item has arrived once.
    async fn check(mut self, texts: &[&str]) {
        let read = soon(self.client.read_thread(&self.thread, IncludeTurns::Yes)).await.unwrap();
        assert_eq!(read.turns.len(), texts.len());
        assert!(read.turns.iter().all(|turn| turn.status == TurnStatus::Completed), "{read:?}");
        let stored = read.turns.iter().flat_map(|turn| &turn.items);
        let stored: BTreeMap<_, _> = stored.map(|item| (item.id().unwrap().clone(), 1)).collect();
        assert_eq!(completed_items(&mut self.events), stored, "each stored item arrived once");
        assert!(self.questions.try_recv().is_err(), "each question was asked once");
        assert_eq!(lines(self.workspace.path()), texts);
        soon(self.client.close()).await;
        drop((self.owner, self.others));
        self.database.check().await;
    }
}

fn lines(workspace: &Path) -> Vec<String> {
    let text = fs::read_to_string(workspace.join("lines")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_follows_its_thread_over_the_death_of_its_server() {
    let Some(mut followed) = FollowedThread::start(3).await else { return };
    let running = followed.ask("one").await;
    followed.accept.send(()).unwrap();
    assert_eq!(soon(running.finish()).await.unwrap().agent_message, "Done");
    let address = followed.database.address();
    let nodes = stdout(&codicil(followed.owner.home.path(), &["nodes", "--store", &address]));
    assert!(
        nodes.contains(&format!("{}  1 threads", followed.owner.url)),
        "the thread stays where it is: {nodes}"
    );

    let running = followed.ask("two").await;
    followed.owner.process.kill();
    followed.owner.process.wait().await;
    // Answered while the thread is nowhere.
    followed.accept.send(()).unwrap();
    assert_eq!(soon(running.finish()).await.unwrap().agent_message, "Done");

    // Calls that are made meanwhile wait.
    let name = json!({ "threadId": followed.thread, "name": "followed" });
    soon(followed.client.call_raw("thread/name/set", name)).await.unwrap();
    let running = followed.ask("three").await;
    followed.accept.send(()).unwrap();
    soon(running.finish()).await.unwrap();
    followed.check(&["one", "two", "three"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_stop_is_no_error_for_the_client() {
    let Some(mut followed) = FollowedThread::start(2).await else { return };
    let running = followed.ask("one").await;
    followed.owner.process.terminate();
    let name = json!({ "threadId": followed.thread, "name": "followed" });
    let naming = followed.client.call_raw("thread/name/set", name);
    followed.owner.process.expect_success().await;
    soon(naming).await.unwrap();
    followed.accept.send(()).unwrap();
    assert_eq!(soon(running.finish()).await.unwrap().agent_message, "Done");
    let running = followed.ask("two").await;
    followed.accept.send(()).unwrap();
    soon(running.finish()).await.unwrap();
    followed.check(&["one", "two"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_not_asked_for_it_is_relayed_instead() {
    let Some(followed) = FollowedThread::start(2).await else { return };
    let client = followed.others[0].connect(Client::builder()).await;
    let resumed = soon(client.resume_thread(resume(&followed.thread))).await.unwrap();
    assert_eq!(resumed.id, followed.thread);
    soon(client.close()).await;
    followed.check(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_at_a_server_that_cannot_be_reached_is_an_error_of_its_own() {
    let Some(database) = TestDatabase::create().await else { return };
    let model = model().await;
    let nowhere = free_address();
    let owner = TestNode::start_with(&database, &model, &["--advertise", &nowhere]).await;
    let other = TestNode::start(&database, &model).await;
    let workspace = tempfile::tempdir().unwrap();
    let params =
        ThreadStartParams { cwd: Some(workspace.path().display().to_string()), ..Default::default() };
    let starter = owner.connect(builder()).await;
    let thread = soon(starter.start_thread(params.clone())).await.unwrap().id;

    let client = other.connect(builder().request_timeout(Duration::from_secs(3))).await;
    let error = soon(client.resume_thread(resume(&thread))).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::ThreadUnreachable { url, .. } if *url == nowhere),
        "{error} {error:?}"
    );
    // Its other threads are not affected.
    soon(client.start_thread(params)).await.unwrap();
    soon(client.close()).await;
    soon(starter.close()).await;
}
