//! A client that reconnects, against a server that the test plays.

use std::{sync::Arc, time::Duration};

use codicil_client::{
    ApprovalDecision, Client, ClientBuilder, ClientError, ClientEvent, ClientLimits, ReconnectOptions,
    RestartLimits, RunningTurn, Supervisor, ask, protocol::*, turn,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{
    fake::message,
    listener::{TestConnection, TestListener},
    soon,
};

fn server() -> Value {
    json!({
        "userAgent": "fake/1.0", "codexHome": "/home/x", "platformFamily": "unix", "platformOs": "linux",
        "codicil": { "version": 1, "features": ["cursor", "keys"], "limits": {} },
    })
}

fn resilient() -> ClientBuilder {
    let first_delay = Duration::from_millis(1);
    Client::builder().resilient(ReconnectOptions { first_delay, ..ReconnectOptions::default() })
}

async fn connected(listener: &TestListener, builder: ClientBuilder) -> (Client, TestConnection) {
    let connecting = builder.connect(listener.address.clone());
    let (client, connection) = tokio::join!(connecting, listener.accept_with(server()));
    (client.unwrap(), connection)
}

fn thread_json(turns: Value) -> Value {
    json!({
        "id": "t", "preview": "", "ephemeral": false, "modelProvider": "p", "createdAt": 0, "updatedAt": 0,
        "status": { "type": "idle" }, "path": null, "cwd": "/", "cliVersion": "1", "source": "cli", "turns": turns,
    })
}

/// Starts the thread `t` at position 100.
async fn start_thread(client: &Client, connection: &mut TestConnection) {
    let answer = async {
        let request = connection.expect("thread/start").await;
        connection.reply(&request, json!({ "thread": { "id": "t" }, "seq": 100 })).await;
    };
    tokio::join!(client.call_raw("thread/start", json!({})), answer).0.unwrap();
}

fn delta(seq: u64) -> Value {
    delta_of("t", seq)
}

fn delta_of(thread: &str, seq: u64) -> Value {
    let params = json!({ "threadId": thread, "turnId": "u", "itemId": "i", "delta": seq.to_string() });
    json!({ "method": "item/agentMessage/delta", "params": params, "seq": seq })
}

fn completed(seq: u64) -> Value {
    let end = json!({ "id": "u", "items": [], "status": "completed", "error": null });
    json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": end }, "seq": seq })
}

fn text(event: Option<ClientEvent>) -> String {
    match event {
        Some(ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta))) => delta.delta,
        other => panic!("{other:?}"),
    }
}

/// Accepts the next connection and answers its subscription of the thread.
async fn accept_again(listener: &TestListener, after: u64, result: Value) -> TestConnection {
    let mut connection = listener.accept_with(server()).await;
    subscribed(&mut connection, after, result).await;
    connection
}

async fn subscribed(connection: &mut TestConnection, after: u64, result: Value) {
    let params = json!({ "threadId": "t", "after": after, "scope": "tree" });
    subscribed_with(connection, params, result).await;
}

async fn subscribed_with(connection: &mut TestConnection, params: Value, result: Value) {
    let subscribe = connection.expect("codicil/subscribe").await;
    assert_eq!(subscribe["params"], params);
    connection.reply(&subscribe, result).await;
}

fn replay(from: u64) -> Value {
    json!({ "mode": "replay", "from": from, "at": from + 100, "requests": [] })
}

#[tokio::test]
async fn changes_in_flight_are_sent_again_with_their_keys() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    let naming = client.call_raw("thread/name/set", json!({ "threadId": "t", "name": "n" }));
    let reading = client.call_raw("thread/read", json!({ "threadId": "t" }));
    let request = first.expect("thread/name/set").await;
    assert!(request["codicil"]["key"].is_string(), "{request}");
    assert_eq!(first.expect("thread/read").await.get("codicil"), None);
    drop(first);
    let second = async {
        let mut second = listener.accept_with(server()).await;
        let again = second.expect("thread/name/set").await;
        assert_eq!(again, request, "the same key, params and id");
        second.reply(&again, json!({})).await;
        second
    };
    let (named, read, _second) = tokio::join!(naming, reading, second);
    assert_eq!(named.unwrap(), json!({}));
    assert!(matches!(read, Err(ClientError::Disconnected(_))), "{read:?}");
    assert!(client.is_connected());
    assert_eq!(*client.connections().borrow(), 2);
}

#[tokio::test]
async fn events_continue_without_loss_or_repetition() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    start_thread(&client, &mut first).await;
    let mut events = client.thread_events(&"t".into());
    first.send(delta(101)).await;
    first.send(delta(102)).await;
    assert_eq!(text(soon(events.next()).await), "101");
    assert_eq!(text(soon(events.next()).await), "102");
    drop(first);
    let mut second = accept_again(&listener, 102, replay(102)).await;
    for seq in [101, 102, 103, 103, 104] {
        second.send(delta(seq)).await;
    }
    assert_eq!(text(soon(events.next()).await), "103");
    assert_eq!(text(soon(events.next()).await), "104");
    drop(second);
    // Nothing has arrived since, and the position is still known.
    let mut third = accept_again(&listener, 104, replay(104)).await;
    third.send(delta(105)).await;
    assert_eq!(text(soon(events.next()).await), "105");
}

#[tokio::test]
async fn a_thread_whose_response_was_lost_is_followed_from_its_beginning() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    let mut events = client.events();
    let starting = client.call_raw("thread/start", json!({}));
    first.expect("thread/start").await;
    drop(first);
    let second = async {
        let mut second = listener.accept_with(server()).await;
        let again = second.expect("thread/start").await;
        let result = json!({ "thread": { "id": "t" }, "seq": 100 });
        let replayed = json!({ "replayed": true });
        let response = format!(r#"{{"id":{},"result":{result},"codicil":{replayed}}}"#, again["id"]);
        second.send_line(&response).await;
        // A live message, before those that were missed.
        second.send(delta(102)).await;
        subscribed(&mut second, 100, replay(100)).await;
        second.send(delta(101)).await;
        second.send(delta(102)).await;
        second
    };
    let (started, _second) = tokio::join!(starting, second);
    assert_eq!(started.unwrap()["thread"]["id"], "t");
    assert_eq!(text(soon(events.next()).await), "101");
    assert_eq!(text(soon(events.next()).await), "102");
}

#[tokio::test]
async fn a_turn_is_collected_over_two_connections() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    start_thread(&client, &mut first).await;
    let served = async {
        first.take_turn("t", "u").await;
        first.send(delta(101)).await;
        let mut second = {
            until_read(&client, &mut first).await;
            drop(first);
            accept_again(&listener, 101, replay(101)).await
        };
        let item = json!({ "threadId": "t", "turnId": "u", "item": message("i", "Hello") });
        second.send(json!({ "method": "item/completed", "params": item, "seq": 110, "replay": true })).await;
        second.send(json!({ "method": "item/completed", "params": item, "seq": 110 })).await;
        second.send(completed(111)).await;
        second
    };
    let (done, _second) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    let done = done.unwrap();
    assert_eq!((done.agent_message.as_str(), done.items.len()), ("Hello", 1));
}

#[tokio::test]
async fn a_snapshot_replaces_what_cannot_be_sent_again() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    start_thread(&client, &mut first).await;
    let mut events = client.events();
    let served = async {
        first.take_turn("t", "u").await;
        drop(first);
        let turn = json!({
            "id": "u", "items": [message("i", "Hello")], "status": "completed", "error": null,
        });
        let thread = thread_json(json!([turn]));
        let result = json!({ "mode": "snapshot", "at": 900, "thread": thread, "open": [], "requests": [], "why": "tooFar" });
        accept_again(&listener, 100, result).await
    };
    let (done, _second) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    assert_eq!(done.unwrap().items.len(), 1);
    let Some(ClientEvent::Snapshot(thread)) = soon(events.next()).await else { panic!("a snapshot") };
    assert_eq!(thread.turns.len(), 1);
}

#[tokio::test]
async fn an_open_request_is_asked_and_answered_once() {
    let listener = TestListener::new();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let decide = Arc::new(Notify::new());
    let decided = decide.clone();
    let builder = resilient().handler(ask(move |_| {
        asked.send(()).unwrap();
        let decided = decided.clone();
        async move {
            decided.notified().await;
            ApprovalDecision::Accept
        }
    }));
    let (client, mut first) = connected(&listener, builder).await;
    start_thread(&client, &mut first).await;
    let method = "item/commandExecution/requestApproval";
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "command": "ls" });
    first.send(json!({ "id": 3, "method": method, "params": params, "seq": 101 })).await;
    soon(questions.recv()).await.unwrap();
    drop(first);
    // After a restart the server asks under another id.
    let open = json!({ "id": 0, "method": method, "params": params, "seq": 101 });
    let result = json!({ "mode": "replay", "from": 101, "at": 101, "requests": [open] });
    let mut second = accept_again(&listener, 101, result).await;
    decide.notify_one();
    let answer = second.next().await;
    assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(0), &json!("accept")));
    drop(second);
    // The answer was lost: it is sent again, and the person is not asked again.
    let open = json!({ "id": 7, "method": method, "params": params, "seq": 101 });
    let result = json!({ "mode": "replay", "from": 101, "at": 101, "requests": [open] });
    let mut third = accept_again(&listener, 101, result).await;
    let answer = third.next().await;
    assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(7), &json!("accept")));
    assert!(questions.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn a_client_that_is_behind_subscribes_again() {
    let listener = TestListener::new();
    let (client, mut connection) = connected(&listener, resilient()).await;
    start_thread(&client, &mut connection).await;
    let mut events = client.events();
    let params = json!({ "threadId": "t", "after": 100 });
    connection.send(json!({ "method": "codicil/behind", "params": params })).await;
    subscribed(&mut connection, 100, replay(100)).await;
    connection.send(delta(101)).await;
    assert_eq!(text(soon(events.next()).await), "101");
}

#[tokio::test]
async fn a_slow_reader_misses_nothing() {
    let listener = TestListener::new();
    let builder = resilient().limits(ClientLimits { events: 2, ..ClientLimits::default() });
    let (client, mut connection) = connected(&listener, builder).await;
    start_thread(&client, &mut connection).await;
    let mut slow = client.events();
    for seq in 101..=105 {
        connection.send(delta(seq)).await;
    }
    until_read(&client, &mut connection).await;
    assert_eq!(text(soon(slow.next()).await), "101");
    assert_eq!(text(soon(slow.next()).await), "102");
    subscribed(&mut connection, 102, replay(102)).await;
    connection.send(delta(103)).await;
    connection.send(delta(104)).await;
    assert_eq!(text(soon(slow.next()).await), "103");
    assert_eq!(text(soon(slow.next()).await), "104");
}

/// Waits until the client has read everything that was sent.
async fn until_read(client: &Client, connection: &mut TestConnection) {
    let (listed, ()) = tokio::join!(client.call_raw("thread/loaded/list", json!({})), async {
        let request = connection.expect("thread/loaded/list").await;
        connection.reply(&request, json!({ "data": [], "nextCursor": null })).await;
    });
    listed.unwrap();
}

/// Starts a turn whose reader takes two events, and ends it while the reader has fallen behind.
async fn slow_turn(listener: &TestListener) -> (Client, TestConnection, RunningTurn) {
    let builder = resilient().limits(ClientLimits { events: 2, ..ClientLimits::default() });
    let (client, mut connection) = connected(listener, builder).await;
    start_thread(&client, &mut connection).await;
    let (running, ()) = tokio::join!(client.turn(turn(&"t".into(), "Hi")), connection.take_turn("t", "u"));
    for message in [delta(101), delta(102), delta(103), completed(104)] {
        connection.send(message).await;
    }
    until_read(&client, &mut connection).await;
    let mut running = running.unwrap();
    assert_eq!(text(soon(running.next()).await), "101");
    assert_eq!(text(soon(running.next()).await), "102");
    (client, connection, running)
}

#[tokio::test]
async fn a_slow_reader_of_a_turn_gets_its_end() {
    let listener = TestListener::new();
    let (_client, mut connection, mut running) = slow_turn(&listener).await;
    subscribed(&mut connection, 102, replay(102)).await;
    for message in [delta(103), completed(104), delta(105)] {
        connection.send(message).await;
    }
    assert_eq!(text(soon(running.next()).await), "103");
    let end = soon(running.next()).await;
    assert!(matches!(end, Some(ClientEvent::Notification(ServerNotification::TurnCompleted(_)))), "{end:?}");
    assert_eq!(soon(running.next()).await, None);
    assert_eq!(soon(running.finish()).await.unwrap().agent_message, "101102103");
}

#[tokio::test]
async fn a_slow_reader_of_a_turn_gets_a_snapshot_if_its_end_cannot_be_sent_again() {
    let listener = TestListener::new();
    let (_client, mut connection, mut running) = slow_turn(&listener).await;
    let result = json!({
        "mode": "snapshot", "at": 900, "thread": thread_json(json!([])), "open": [], "requests": [], "why": "tooFar",
    });
    subscribed(&mut connection, 102, result).await;
    assert!(matches!(soon(running.next()).await, Some(ClientEvent::Snapshot(_))));
    assert_eq!(soon(running.next()).await, None);
    soon(running.finish()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_client_ends_a_turn_whose_reader_is_behind() {
    let listener = TestListener::new();
    let (client, connection, mut running) = slow_turn(&listener).await;
    drop((connection, listener));
    soon(client.close()).await;
    assert_eq!(soon(running.next()).await, None);
    soon(running.finish()).await.unwrap();
}

#[tokio::test]
async fn a_subagent_that_started_meanwhile_is_followed_from_its_beginning() {
    let listener = TestListener::new();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let builder = resilient().handler(ask(move |_| {
        asked.send(()).unwrap();
        async { ApprovalDecision::Accept }
    }));
    let (client, mut first) = connected(&listener, builder).await;
    start_thread(&client, &mut first).await;
    let mut events = client.events();
    drop(first);
    let mut second = listener.accept_with(server()).await;
    let subscribe = second.expect("codicil/subscribe").await;
    // A message and a request of the subagent come before the answer to the subscription that includes it.
    second.send(delta_of("agent", 41)).await;
    let method = "item/commandExecution/requestApproval";
    let params = json!({ "threadId": "agent", "turnId": "u", "itemId": "i", "command": "ls" });
    second.send(json!({ "id": 3, "method": method, "params": params, "seq": 42 })).await;
    let subagents = json!([{ "threadId": "agent", "at": 40 }, { "threadId": "silent", "at": 7 }]);
    let mut answer = replay(100);
    answer["subagents"] = subagents;
    second.reply(&subscribe, answer).await;
    soon(questions.recv()).await.unwrap();
    let open = json!({ "id": 3, "method": method, "params": params, "seq": 42 });
    let mut decided = 0;
    for _ in 0..3 {
        let message = second.next().await;
        if message["id"] == 3 {
            assert_eq!(message["result"]["decision"], "accept");
            decided += 1;
            continue;
        }
        let thread = message["params"]["threadId"].as_str().unwrap();
        assert_eq!(message["params"], json!({ "threadId": thread, "after": 0, "scope": "tree" }));
        let requests = if thread == "agent" { json!([open]) } else { json!([]) };
        let at = if thread == "agent" { 42 } else { 7 };
        let answer = json!({ "mode": "replay", "from": 0, "at": at, "requests": requests, "subagents": [] });
        second.reply(&message, answer).await;
        for seq in if thread == "agent" { vec![30, 41] } else { vec![7] } {
            second.send(delta_of(thread, seq)).await;
        }
    }
    assert_eq!(decided, 1);
    let mut texts = Vec::new();
    for _ in 0..3 {
        texts.push(text(soon(events.next()).await));
    }
    texts.sort_unstable();
    assert_eq!(texts, ["30", "41", "7"]);
    assert!(questions.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn a_subagent_that_has_ended_is_not_sent_again() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    start_thread(&client, &mut first).await;
    first.send(delta_of("agent", 41)).await;
    first.send(json!({ "method": "thread/closed", "params": { "threadId": "agent" } })).await;
    until_read(&client, &mut first).await;
    drop(first);
    let mut answer = replay(100);
    answer["subagents"] = json!([{ "threadId": "agent", "at": 41 }]);
    let mut second = accept_again(&listener, 100, answer).await;
    // Nothing else is asked for.
    until_read(&client, &mut second).await;
}

#[tokio::test]
async fn a_thread_that_was_subscribed_to_alone_stays_alone() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    let params = json!({ "threadId": "t", "after": 100 });
    let (answered, ()) = tokio::join!(client.call_raw("codicil/subscribe", params.clone()), async {
        let request = first.expect("codicil/subscribe").await;
        first.reply(&request, replay(100)).await;
    });
    answered.unwrap();
    drop(first);
    let mut second = listener.accept_with(server()).await;
    let params = json!({ "threadId": "t", "after": 100, "scope": "thread" });
    subscribed_with(&mut second, params, replay(100)).await;
}

#[tokio::test]
async fn a_client_gives_up_after_its_time() {
    let listener = TestListener::new();
    let options = ReconnectOptions {
        first_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(1),
        give_up_after: Some(Duration::from_millis(20)),
        ..ReconnectOptions::default()
    };
    let (client, first) = connected(&listener, Client::builder().resilient(options)).await;
    let naming = client.call_raw("thread/name/set", json!({ "threadId": "t", "name": "n" }));
    drop((first, listener));
    assert!(matches!(soon(naming).await, Err(ClientError::Disconnected(_))));
    soon(client.disconnected()).await;
}

#[tokio::test]
async fn a_server_without_the_extension_is_refused() {
    let listener = TestListener::new();
    let connecting = resilient().connect(listener.address.clone());
    let plain = async {
        let mut plain = server();
        plain.as_object_mut().unwrap().remove("codicil");
        listener.accept_refused(plain).await
    };
    let (client, _connection) = tokio::join!(connecting, plain);
    let error = client.unwrap_err();
    assert!(error.to_string().contains("extension `codicil`"), "{error}");
}

#[tokio::test]
async fn a_lost_thread_ends_its_turns() {
    let listener = TestListener::new();
    let (client, mut first) = connected(&listener, resilient()).await;
    start_thread(&client, &mut first).await;
    let served = async {
        first.take_turn("t", "u").await;
        drop(first);
        let mut second = listener.accept_with(server()).await;
        let subscribe = second.expect("codicil/subscribe").await;
        let error = json!({ "code": -32600, "message": "thread not found: t" });
        second.send(json!({ "id": subscribe["id"], "error": error })).await;
        second
    };
    let (done, _second) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    assert!(matches!(&done, Err(ClientError::Disconnected(_))), "{done:?}");
}

#[tokio::test]
async fn a_server_that_crashes_at_once_is_given_up() {
    let listener = TestListener::new();
    let options = ReconnectOptions {
        first_delay: Duration::from_millis(1),
        max_attempts: Some(2),
        ..ReconnectOptions::default()
    };
    let (client, first) = connected(&listener, Client::builder().resilient(options)).await;
    drop(first);
    for _ in 0..2 {
        drop(listener.accept_with(server()).await);
    }
    soon(client.disconnected()).await;
    assert_eq!(*client.connections().borrow(), 3);
}

/// Starts a supervisor with the thread `t` at position 100.
async fn supervised(listener: &TestListener) -> (Supervisor, TestConnection) {
    let limits = RestartLimits { delay: Duration::from_millis(1), ..RestartLimits::default() };
    let starting = Supervisor::start(Client::builder(), listener.address.clone(), limits);
    let (supervisor, mut connection) = tokio::join!(starting, listener.accept_with(server()));
    let supervisor = supervisor.unwrap();
    start_thread(&supervisor.client().await.unwrap(), &mut connection).await;
    (supervisor, connection)
}

#[tokio::test]
async fn a_supervised_turn_continues_on_the_next_connection() {
    let listener = TestListener::new();
    let (supervisor, mut first) = supervised(&listener).await;
    let (done, second) = tokio::join!(supervisor.run_turn(turn(&"t".into(), "Hi")), async {
        first.take_turn("t", "u").await;
        first.send(delta(101)).await;
        drop(first);
        let mut second = accept_again(&listener, 101, replay(101)).await;
        second.complete("t", "u", "101").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "101");
    assert_eq!(supervisor.connected().map(|(_, generation)| generation), Some(0), "threads stay loaded");
    assert_eq!(supervisor.connection_count(), 2);
    drop((supervisor, second));
}

#[tokio::test]
async fn a_supervised_turn_that_was_cut_off_before_any_work_is_repeated() {
    let listener = TestListener::new();
    let (supervisor, mut first) = supervised(&listener).await;
    let (done, second) = tokio::join!(supervisor.run_turn(turn(&"t".into(), "Hi")), async {
        first.take_turn("t", "u").await;
        drop(first);
        let mut second = accept_again(&listener, 100, replay(100)).await;
        let ended = json!({ "id": "u", "items": [], "status": "interrupted", "error": null });
        let params = json!({ "threadId": "t", "turn": ended });
        second.send(json!({ "method": "turn/completed", "params": params, "seq": 101 })).await;
        second.take_turn("t", "u2").await;
        second.complete("t", "u2", "Second attempt").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "Second attempt");
    drop((supervisor, second));
}
