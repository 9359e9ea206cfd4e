//! Clients that work on threads which another server owns.

use std::{
    fs,
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use codicil_client::{Client, WebSocket, turn};
use codicil_protocol::{
    AgentMessageDelta, CommandExecutionApproval, CommandExecutionApprovalDecision,
    CommandExecutionRequestApprovalResponse, ItemCompleted, Thread, ThreadItem, ThreadNameSet,
    ThreadQueueAdd, ThreadQueueList, TurnCompleted, TurnInterrupt, TurnStart, TurnStatus, TurnSteer,
};
use codicil_testkit::{
    App, AppBuilder, ReceivedMessage, Reply, Script, ServerBeside, ServerProcess, TestTransport,
};
use serde_json::{Value, from_value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    database::TestDatabase,
    machine_load::{LEASE_TIME, MachineLoad, TAKEOVER_TIME},
    server,
};

/// What a busy machine may take longer.
const SLACK: Duration = Duration::from_secs(6);
/// The time without a sign of life after which an owner counts as lost.
const MAX_SILENCE: Duration = Duration::from_secs(6);

/// Returns a server over a database that other servers reach.
fn node(database: &TestDatabase, script: Script) -> AppBuilder {
    App::builder()
        .script(script)
        .experimental()
        .over(TestTransport::WebSocket)
        .known_port()
        .arguments(["--store", &database.address()])
}

/// Appends a line, outside the sandbox and therefore only after an approval.
fn append_line() -> Value {
    json!({ "cmd": "echo line >> lines", "sandbox_permissions": "require_escalated", "justification": "May I?" })
}

fn accept() -> CommandExecutionRequestApprovalResponse {
    CommandExecutionRequestApprovalResponse { decision: CommandExecutionApprovalDecision::Accept }
}

fn lines(app: &App) -> usize {
    fs::read_to_string(app.workspace().join("lines")).unwrap_or_default().lines().count()
}

fn input(thread: &Thread, text: &str) -> Value {
    json!({ "threadId": thread.id, "input": [{ "type": "text", "text": text }] })
}

/// Reads everything up to the end of the turn. Plain clients see no position.
async fn until_completed(client: &mut ServerBeside) -> Vec<ReceivedMessage> {
    let mut messages = Vec::new();
    loop {
        let message = client.next_received().await.expect("the connection stays open");
        assert!(message.seq.is_none() && !message.is_replay, "{message:?}");
        let is_last = message.method == "turn/completed";
        messages.push(message);
        if is_last {
            return messages;
        }
    }
}

fn count(messages: &[ReceivedMessage], method: &str) -> usize {
    messages.iter().filter(|message| message.method == method).count()
}

/// Two servers. The first owns a thread with a turn, the client of the second has resumed it.
struct RelayedThread {
    database: TestDatabase,
    a: App,
    b: ServerBeside,
    thread: Thread,
}

impl RelayedThread {
    /// Returns `None` without PostgreSQL.
    async fn start(script: Script, options: impl FnOnce(AppBuilder) -> AppBuilder) -> Option<Self> {
        let database = TestDatabase::create().await?;
        let mut a = options(node(&database, script)).start().await;
        let mut b = a.another_server().await;
        let thread = a.start_thread().await;
        assert_eq!(a.run_turn(&thread, "hello").await.status, TurnStatus::Completed);
        assert_eq!(b.resume(&thread).await.turns.len(), 1);
        Some(Self { database, a, b, thread })
    }

    /// Ends the servers and checks what is stored.
    async fn end(self) {
        let Self { database, mut a, mut b, .. } = self;
        a.ignore_rest();
        b.ignore_rest();
        drop(b);
        drop(a);
        database.check().await;
    }
}

async fn works_through_another_server(options: impl FnOnce(AppBuilder) -> AppBuilder) {
    let script = (Script::new().say("hi").then())
        .say_deltas(["stre", "aming"])
        .then()
        .call("exec_command", append_line())
        .then()
        .say("ran")
        .then()
        .say("begun")
        .hang()
        .then()
        .say("one")
        .unfinished()
        .gate("steered")
        .say("two")
        .then()
        .say("three");
    let Some(mut relayed) = RelayedThread::start(script, options).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;

    // Both clients see the same turn.
    let turn = b.start_turn(thread, "stream").await;
    let messages = until_completed(b).await;
    let order: Vec<_> = messages.iter().map(|message| message.method.as_str()).collect();
    assert_eq!(count(&messages, "turn/started"), 1, "{order:?}");
    assert!(count(&messages, "item/agentMessage/delta") >= 1, "{order:?}");
    let seen = a.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    assert_eq!(seen.turn.status, TurnStatus::Completed);

    // An approval is answered through the other server.
    b.start_turn(thread, "run").await;
    let asked = b.expect_request::<CommandExecutionApproval>().await;
    let asked_of_a = a.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(asked.params, asked_of_a.params);
    b.reply(&asked, accept()).await;
    let messages = until_completed(b).await;
    let resolved = messages.iter().find(|message| message.method == "serverRequest/resolved").unwrap();
    assert_eq!(resolved.params["requestId"], json!(asked.id));
    assert_eq!(lines(a), 1);

    // A turn is interrupted.
    let turn = b.start_turn(thread, "hang").await;
    b.until::<AgentMessageDelta>().await;
    b.interrupt(&turn).await;
    assert_eq!(b.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);

    // A turn is steered.
    let turn = b.start_turn(thread, "steer").await;
    b.until::<AgentMessageDelta>().await;
    let mut steer = input(thread, "left");
    steer["expectedTurnId"] = json!(turn.id);
    assert_eq!(b.call::<TurnSteer>(from_value(steer).unwrap()).await.turn_id, turn.id);
    a.model().release("steered");
    assert_eq!(b.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    let asked = a.model().requests().last().unwrap().body().to_string();
    assert!(asked.contains("left"), "{asked}");

    let name = json!({ "threadId": thread.id, "name": "renamed" });
    b.call::<ThreadNameSet>(from_value(name).unwrap()).await;
    assert_eq!(b.read(thread).await.name.as_deref(), Some("renamed"));
    relayed.end().await;
}

#[tokio::test]
async fn a_plain_client_works_on_a_thread_of_another_server() {
    works_through_another_server(|builder| builder).await;
}

#[tokio::test]
async fn a_client_of_the_later_generation_works_on_a_thread_of_another_server() {
    works_through_another_server(AppBuilder::later_client).await;
}

#[tokio::test]
async fn input_is_queued_through_another_server() {
    let script = Script::new()
        .say("hi")
        .then()
        .say("begun")
        .unfinished()
        .gate("end")
        .say("ended")
        .then()
        .say("queued");
    let Some(mut relayed) = RelayedThread::start(script, AppBuilder::later_client).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    b.start_turn(thread, "first").await;
    b.until::<AgentMessageDelta>().await;
    let mut second = input(thread, "second");
    second["clientUserMessageId"] = json!("c-second");
    b.call::<ThreadQueueAdd>(from_value(second).unwrap()).await;
    let listed = b.call::<ThreadQueueList>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    assert_eq!(listed.data.len(), 1);
    a.model().release("end");
    b.until::<TurnCompleted>().await;
    b.until::<TurnCompleted>().await;
    let said = |item: &ThreadItem| matches!(item, ThreadItem::AgentMessage { text, .. } if text == "queued");
    assert!(b.read(thread).await.turns.iter().flat_map(|turn| &turn.items).any(said));
    relayed.end().await;
}

#[tokio::test]
async fn a_thread_that_is_loaded_elsewhere_takes_turns_without_being_resumed() {
    let Some(database) = TestDatabase::create().await else { return };
    let mut a = node(&database, Script::new().repeat(Reply::new().say("done"))).start().await;
    let mut b = a.another_server().await;
    let thread = a.start_thread().await;
    a.run_turn(&thread, "hello").await;
    let turn = b.call::<TurnStart>(from_value(input(&thread, "more")).unwrap()).await.turn;
    a.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    a.ignore_rest();
    b.ignore_rest();
}

async fn survives_a_killed_owner(options: impl FnOnce(AppBuilder) -> AppBuilder) {
    let script = (Script::new().say("hi").then())
        .say("Let me look")
        .call("exec_command", append_line())
        .call_id("c")
        .then()
        .say("done")
        .then()
        .say("again");
    let Some(mut relayed) = RelayedThread::start(script, options).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    let turn = b.start_turn(thread, "run").await;
    let mut before = Vec::new();
    let first = loop {
        let message = b.next_received().await.unwrap();
        if message.id.is_some() {
            break message;
        }
        before.push(message);
    };
    let machine = MachineLoad::measure();
    a.process().kill();
    let killed = Instant::now();
    let again = b.expect_request::<CommandExecutionApproval>().await;
    let taken_over = killed.elapsed();
    let slowdown = machine.slowdown();
    eprintln!("the approval came again after {taken_over:?}, on a machine that was slower by {slowdown:.1}");
    assert!(taken_over <= LEASE_TIME + TAKEOVER_TIME.mul_f64(slowdown), "{taken_over:?}");
    assert_eq!(json!(again.params), first.params, "the same request");
    assert_eq!(lines(a), 0);
    b.reply(&again, accept()).await;
    let after = until_completed(b).await;
    let ended = &after.last().unwrap().params["turn"];
    assert_eq!((&ended["id"], &ended["status"]), (&json!(turn.id), &json!("completed")));
    assert_eq!(lines(a), 1);
    // Nothing that is stored came twice.
    let all = [before, after].concat();
    assert_eq!(count(&all, "turn/started"), 1);
    assert_eq!(count(&all, "turn/completed"), 1);
    let completed = all.iter().filter(|message| message.method == "item/completed");
    let mut items: Vec<_> = completed.map(|message| message.params["item"]["id"].to_string()).collect();
    let total = items.len();
    items.sort();
    items.dedup();
    assert_eq!(items.len(), total, "{items:?}");
    // The connection goes on.
    assert_eq!(b.run_turn(thread, "again").await.status, TurnStatus::Completed);
    relayed.end().await;
}

#[tokio::test]
async fn an_approval_comes_again_when_the_owner_is_killed() {
    survives_a_killed_owner(|builder| builder).await;
}

#[tokio::test]
async fn an_approval_comes_again_to_a_later_client_when_the_owner_is_killed() {
    survives_a_killed_owner(AppBuilder::later_client).await;
}

#[tokio::test]
async fn a_client_stays_with_its_thread_when_the_owner_is_stopped() {
    let script = Script::new().repeat(Reply::new().say("done"));
    let Some(mut relayed) = RelayedThread::start(script, |builder| builder).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    assert_eq!(b.run_turn(thread, "more").await.status, TurnStatus::Completed);
    a.process().terminate();
    let stopped = Instant::now();
    // Sent while the owner stops: it is carried out there, or by the next owner. The former may interrupt the turn.
    let turn = b.start_turn(thread, "while it stops").await;
    b.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    eprintln!("the turn ended {:?} after the signal", stopped.elapsed());
    a.process().wait().await;
    assert_eq!(b.run_turn(thread, "after").await.status, TurnStatus::Completed);
    assert_eq!(b.read(thread).await.turns.len(), 4);
    relayed.end().await;
}

#[tokio::test]
async fn a_thread_is_followed_to_the_server_that_takes_it_over() {
    let Some(database) = TestDatabase::create().await else { return };
    let script = (Script::new().say("hi").then())
        .call("exec_command", append_line())
        .then()
        .repeat(Reply::new().say("done"));
    let mut a = node(&database, script).start().await;
    let mut beside = a.another_server().await;
    // A node with a name has a disk of its own: it waits for one that has the workspace.
    let mut b = node(&database, Script::new()).arguments(["--node", "apart"]).start().await;
    let thread = a.start_thread().await;
    a.run_turn(&thread, "hello").await;
    b.resume(&thread).await;
    let turn = b.start_turn(&thread, "run").await;
    let first = b.expect_request::<CommandExecutionApproval>().await;
    a.process().kill();
    let again = b.expect_request::<CommandExecutionApproval>().await;
    assert_eq!((&again.id, &again.params), (&first.id, &first.params), "the same request, with the same id");
    b.reply(&again, accept()).await;
    let ended = b.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (turn.id, TurnStatus::Completed));
    assert_eq!(lines(&a), 1);
    assert_eq!(b.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    a.ignore_rest();
    b.ignore_rest();
    beside.ignore_rest();
    drop(b);
    drop(beside);
    drop(a);
    database.check().await;
}

#[tokio::test]
async fn a_client_goes_on_when_the_owner_is_suspended() {
    let script = Script::new().repeat(Reply::new().say("done"));
    let Some(mut relayed) = RelayedThread::start(script, |builder| builder).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    let pid = a.process().id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status().unwrap();
    assert!(signal("-STOP").success());
    let suspended = Instant::now();
    assert_eq!(b.run_turn(thread, "more").await.status, TurnStatus::Completed);
    eprintln!("the turn ended {:?} after the owner was suspended", suspended.elapsed());
    assert!(signal("-CONT").success());
    assert_eq!(b.run_turn(thread, "again").await.status, TurnStatus::Completed);
    assert_eq!(b.read(thread).await.turns.len(), 3);
    relayed.end().await;
}

#[tokio::test]
async fn a_client_over_stdio_reaches_a_thread_of_a_server_with_a_token() {
    let Some(database) = TestDatabase::create().await else { return };
    let files = tempfile::tempdir().unwrap();
    let token_file = files.path().join("token").to_string_lossy().into_owned();
    fs::write(&token_file, "a token that both servers know").unwrap();
    let token = ["--ws-auth", "capability-token", "--ws-token-file", &token_file];
    let script = Script::new().repeat(Reply::new().say("done"));
    let mut b = server(&database, script).arguments(token).start().await;
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let url = format!("ws://127.0.0.1:{port}");
    let owner = ["app-server", "--listen", &url, "--store", &database.address()];
    let mut owner = ServerProcess::spawn(b.home(), owner.into_iter().chain(token));
    owner.announced_address().await;
    let socket = WebSocket::new(&url).bearer("a token that both servers know");
    let client = Client::builder().name("test", "1").connect(socket).await.unwrap();
    let params = json!({ "cwd": b.workspace() });
    let thread = client.start_thread(from_value(params).unwrap()).await.unwrap();
    client.run_turn(turn(&thread.id, "hello")).await.unwrap();

    assert_eq!(b.resume(&thread).await.turns.len(), 1);
    assert_eq!(b.run_turn(&thread, "more").await.status, TurnStatus::Completed);
    let logged = b.process().stderr();
    assert!(!logged.contains("both servers know"), "{logged}");
    b.ignore_rest();
}

#[tokio::test]
async fn a_client_with_a_cursor_gets_positions_of_another_server() {
    let script = Script::new().repeat(Reply::new().say("done"));
    let Some(mut relayed) = RelayedThread::start(script, AppBuilder::cursor).await else { return };
    let RelayedThread { b, thread, .. } = &mut relayed;
    b.start_turn(thread, "more").await;
    let mut last = 0;
    loop {
        let message = b.next_received().await.unwrap();
        let Some(seq) = message.seq else { continue };
        assert!(seq > last, "{message:?}");
        last = seq;
        if message.method == "turn/completed" {
            break;
        }
    }
    let key = "0c4f";
    let first = b.keyed("turn/start", &input(thread, "once"), key).await;
    b.until::<ItemCompleted>().await;
    let second = b.keyed("turn/start", &input(thread, "once"), key).await;
    assert!(second.is_replayed && second.result["turn"]["id"] == first.result["turn"]["id"]);
    relayed.end().await;
}

#[tokio::test]
async fn a_request_that_is_not_repeated_fails_when_the_owner_does_not_answer() {
    let script = (Script::new().say("hi").then()).say("begun").hang().then().repeat(Reply::new().say("done"));
    let Some(mut relayed) = RelayedThread::start(script, |builder| builder).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    let turn = b.start_turn(thread, "hang").await;
    b.until::<AgentMessageDelta>().await;
    a.process().suspend();
    let suspended = Instant::now();
    let params = json!({ "threadId": thread.id, "turnId": turn.id });
    let error = b.try_call::<TurnInterrupt>(from_value(params).unwrap()).await.unwrap_err();
    assert_eq!(error.data.unwrap()["codicil"]["code"], "outcomeUnknown", "{}", error.message);
    assert!(suspended.elapsed() <= MAX_SILENCE + SLACK, "{:?}", suspended.elapsed());
    // The turn has ended with its owner.
    b.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    assert_eq!(b.run_turn(thread, "again").await.status, TurnStatus::Completed);
    a.process().wake();
    relayed.end().await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything_and_delays_no_other() {
    let pieces: Vec<_> = (0..400).map(|number| format!("{number:>16384}")).collect();
    let script = (Script::new().say("hi").then()).say_deltas(pieces.clone());
    let Some(mut relayed) = RelayedThread::start(script, |builder| builder).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    let turn = b.start_turn(thread, "flood").await;
    // The other client reads the whole turn while this one reads nothing.
    let ended = a.until_where::<TurnCompleted>(|completed| completed.turn.id == turn.id).await;
    assert_eq!(ended.turn.status, TurnStatus::Completed);
    let peak = b.process().peak_kib();
    assert!(peak < 256 << 10, "the server in between uses {peak} KiB");
    let messages = until_completed(b).await;
    let deltas = messages.iter().filter(|message| message.method == "item/agentMessage/delta");
    let text: String = deltas.filter_map(|message| message.params["delta"].as_str()).collect();
    assert!(text == pieces.concat(), "{} of {} bytes", text.len(), pieces.concat().len());
    relayed.end().await;
}

#[tokio::test]
async fn relayed_bytes_are_counted() {
    let script = Script::new().repeat(Reply::new().say("done"));
    let with_metrics = |builder: AppBuilder| builder.arguments(["--metrics"]);
    let Some(mut relayed) = RelayedThread::start(script, with_metrics).await else { return };
    let RelayedThread { a, b, thread, .. } = &mut relayed;
    let between = b.process().announced_address().await;
    let before = relayed_bytes(&between).await;
    assert_eq!(b.run_turn(thread, "more").await.status, TurnStatus::Completed);
    let after = relayed_bytes(&between).await;
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
    // The owner relays nothing.
    assert_eq!(relayed_bytes(&a.process().announced_address().await).await, [0, 0]);
    relayed.end().await;
}

/// Returns the bytes that a server has relayed to owners and to clients.
async fn relayed_bytes(address: &str) -> [u64; 2] {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    ["to_owner", "to_client"].map(|direction| {
        let name = format!("codicil_relay_bytes_total{{direction=\"{direction}\"}} ");
        let value = response.lines().find_map(|line| line.strip_prefix(&name));
        value.unwrap_or_else(|| panic!("{response}")).parse().unwrap()
    })
}
