//! A client that follows its threads to other nodes, against nodes that the test plays.

use std::{sync::Arc, time::Duration};

use codicil_client::{
    ApprovalDecision, Client, ClientBuilder, ClientEvent, ReconnectOptions, RetryOptions, ask, protocol::*,
    turn,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{
    listener::{TestConnection, TestNode},
    soon,
};

fn server() -> Value {
    json!({
        "userAgent": "fake/1.0", "codexHome": "/home/x", "platformFamily": "unix", "platformOs": "linux",
        "codicil": { "version": 1, "features": ["cursor", "keys", "redirect"], "limits": {} },
    })
}

fn builder() -> ClientBuilder {
    let first_delay = Duration::from_millis(1);
    Client::builder()
        .resilient(ReconnectOptions { first_delay, ..ReconnectOptions::default() })
        .retry(RetryOptions { first_delay, ..RetryOptions::default() })
}

async fn connected(first: &TestNode, builder: ClientBuilder) -> (Client, TestConnection) {
    let (client, connection) = tokio::join!(builder.connect(first.address()), first.accept(server()));
    (client.unwrap(), connection)
}

/// The error for the thread `t` of a node.
fn moved(node: &TestNode) -> Value {
    let data = json!({ "codicil": { "code": "moved", "node": "other", "url": node.url } });
    json!({ "code": -32600, "message": "thread t belongs to node other", "data": data })
}

fn replay(from: u64, requests: Value) -> Value {
    json!({ "mode": "replay", "from": from, "at": from, "requests": requests })
}

fn delta(seq: u64) -> Value {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "delta": seq.to_string() });
    json!({ "method": "item/agentMessage/delta", "params": params, "seq": seq })
}

fn completed(seq: u64) -> Value {
    let turn = json!({ "id": "u", "items": [], "status": "completed", "error": null });
    json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn }, "seq": seq })
}

fn text(event: Option<ClientEvent>) -> String {
    match event {
        Some(ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta))) => delta.delta,
        other => panic!("{other:?}"),
    }
}

async fn subscribed(connection: &mut TestConnection, after: u64, result: Value) {
    let subscribe = connection.expect("codicil/subscribe").await;
    assert_eq!(subscribe["params"], json!({ "threadId": "t", "after": after, "scope": "tree" }));
    connection.reply(&subscribe, result).await;
}

/// Resumes the thread `t`, which is at another node, at position 100.
async fn resume(client: &Client, first: &mut TestConnection, node: &TestNode) -> TestConnection {
    let params = json!({ "threadId": "t" });
    let served = async {
        let asked = first.expect("thread/resume").await;
        first.refuse(&asked, moved(node)).await;
        let mut connection = node.accept(server()).await;
        let again = connection.expect("thread/resume").await;
        assert_eq!(again["params"], asked["params"]);
        connection.reply(&again, json!({ "thread": { "id": "t" }, "seq": 100 })).await;
        connection
    };
    let (resumed, connection) = tokio::join!(client.call_raw("thread/resume", params), served);
    assert_eq!(resumed.unwrap()["thread"]["id"], "t");
    connection
}

#[tokio::test]
async fn a_thread_is_followed_to_its_node() {
    let (first, node) = (TestNode::new().await, TestNode::new().await);
    let builder = builder().handler(ask(|_| async { ApprovalDecision::Accept }));
    let (client, mut home) = connected(&first, builder).await;
    let mut events = client.events();
    let mut there = resume(&client, &mut home, &node).await;
    let served = async {
        there.take_turn("t", "u").await;
        there.send(delta(101)).await;
        let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "command": "ls" });
        let method = "item/commandExecution/requestApproval";
        there.send(json!({ "id": 7, "method": method, "params": params, "seq": 102 })).await;
        let answer = there.next().await;
        assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(7), &json!("accept")));
        there.send(completed(103)).await;
    };
    let (done, ()) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    assert_eq!(done.unwrap().turn.id, "u".into());
    assert_eq!(text(soon(events.next()).await), "101");
    // What names no thread, or another one, is for the first server.
    for (method, params) in [("thread/list", json!({})), ("thread/read", json!({ "threadId": "other" }))] {
        let (answered, ()) = tokio::join!(client.call_raw(method, params), async {
            let asked = home.expect(method).await;
            home.reply(&asked, json!({})).await;
        });
        answered.unwrap();
    }
    drop(client);
    there.closed().await;
    home.closed().await;
}

#[tokio::test]
async fn a_lost_node_is_replaced_by_the_server_that_took_over() {
    let (first, node) = (TestNode::new().await, TestNode::new().await);
    let (client, mut home) = connected(&first, builder()).await;
    let mut events = client.thread_events(&"t".into());
    let mut there = resume(&client, &mut home, &node).await;
    there.send(delta(101)).await;
    assert_eq!(text(soon(events.next()).await), "101");
    let served = async {
        let asked = there.expect("turn/start").await;
        drop(there);
        // Calls wait until the thread is found.
        subscribed(&mut home, 101, replay(101, json!([]))).await;
        let again = home.expect("turn/start").await;
        assert_eq!((&again["params"], &again["codicil"]), (&asked["params"], &asked["codicil"]));
        assert!(again["codicil"]["key"].is_string());
        home.reply(
            &again,
            json!({ "turn": { "id": "u", "items": [], "status": "inProgress", "error": null } }),
        )
        .await;
        for message in [delta(101), delta(102), completed(103)] {
            home.send(message).await;
        }
    };
    let (done, ()) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    done.unwrap();
    assert_eq!(text(soon(events.next()).await), "102");
}

#[tokio::test]
async fn a_thread_that_moves_again_keeps_its_questions() {
    let (first, one, two) = (TestNode::new().await, TestNode::new().await, TestNode::new().await);
    let (asked, mut questions) = mpsc::unbounded_channel();
    let decide = Arc::new(Notify::new());
    let decided = decide.clone();
    let builder = builder().handler(ask(move |_| {
        asked.send(()).unwrap();
        let decided = decided.clone();
        async move {
            decided.notified().await;
            ApprovalDecision::Accept
        }
    }));
    let (client, mut home) = connected(&first, builder).await;
    let mut there = resume(&client, &mut home, &one).await;
    let method = "item/commandExecution/requestApproval";
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "command": "ls" });
    there.send(json!({ "id": 3, "method": method, "params": params, "seq": 101 })).await;
    soon(questions.recv()).await.unwrap();
    drop(there);
    let subscribe = home.expect("codicil/subscribe").await;
    home.refuse(&subscribe, moved(&two)).await;
    let mut second = two.accept(server()).await;
    let open = |id: u64| json!([{ "id": id, "method": method, "params": params, "seq": 101 }]);
    subscribed(&mut second, 101, replay(101, open(9))).await;
    decide.notify_one();
    let answer = second.next().await;
    assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(9), &json!("accept")));
    drop(second);
    // The answer was lost, and the first server has taken the thread over.
    subscribed(&mut home, 101, replay(101, open(4))).await;
    let answer = home.next().await;
    assert_eq!((&answer["id"], &answer["result"]["decision"]), (&json!(4), &json!("accept")));
    assert!(questions.try_recv().is_err(), "asked once");
}

#[tokio::test]
async fn connections_without_threads_are_closed() {
    let (first, node) = (TestNode::new().await, TestNode::new().await);
    let (client, mut home) = connected(&first, builder()).await;
    // A call to a thread that the client does not follow.
    let naming = client.call_raw("thread/name/set", json!({ "threadId": "t", "name": "n" }));
    let served = async {
        let asked = home.expect("thread/name/set").await;
        home.refuse(&asked, moved(&node)).await;
        let mut there = node.accept(server()).await;
        let again = there.expect("thread/name/set").await;
        assert_eq!(again["codicil"], asked["codicil"], "the same key");
        there.reply(&again, json!({})).await;
        there
    };
    let (named, mut there) = tokio::join!(naming, served);
    named.unwrap();
    there.closed().await;
    // A thread that ends.
    let mut there = resume(&client, &mut home, &node).await;
    there.send(json!({ "method": "thread/archived", "params": { "threadId": "t" } })).await;
    there.closed().await;
    assert!(client.is_connected());
}

#[tokio::test]
async fn a_thread_that_its_node_gives_up_during_a_turn_is_searched() {
    let (first, node) = (TestNode::new().await, TestNode::new().await);
    let (client, mut home) = connected(&first, builder()).await;
    let mut there = resume(&client, &mut home, &node).await;
    let served = async {
        there.take_turn("t", "u").await;
        there.send(json!({ "method": "thread/closed", "params": { "threadId": "t" } })).await;
        subscribed(&mut home, 100, replay(100, json!([]))).await;
        home.send(completed(101)).await;
        there.closed().await;
    };
    let (done, ()) = tokio::join!(client.run_turn(turn(&"t".into(), "Hi")), served);
    done.unwrap();
}

#[tokio::test]
async fn a_thread_that_a_call_has_subscribed_to_is_followed() {
    let (first, node) = (TestNode::new().await, TestNode::new().await);
    let (client, mut home) = connected(&first, builder()).await;
    let mut events = client.thread_events(&"t".into());
    let served = async {
        let asked = home.expect("codicil/subscribe").await;
        home.refuse(&asked, moved(&node)).await;
        let mut there = node.accept(server()).await;
        let again = there.expect("codicil/subscribe").await;
        there.reply(&again, replay(100, json!([]))).await;
        there
    };
    let subscribing = client.call_raw("codicil/subscribe", json!({ "threadId": "t", "after": 100 }));
    let (subscribed, mut there) = tokio::join!(subscribing, served);
    subscribed.unwrap();
    there.send(delta(101)).await;
    assert_eq!(text(soon(events.next()).await), "101");
    let (unsubscribed, ()) =
        tokio::join!(client.call_raw("thread/unsubscribe", json!({ "threadId": "t" })), async {
            let asked = there.expect("thread/unsubscribe").await;
            there.reply(&asked, json!({})).await;
        });
    unsubscribed.unwrap();
    there.closed().await;
}
