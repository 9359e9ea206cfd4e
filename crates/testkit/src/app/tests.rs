//! Tests of the client against a server that is a pair of channels.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionRequestApprovalResponse, ThreadArchived, ThreadClosed,
    ThreadLoadedList, ThreadNameUpdated, rpc::RequestId,
};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{client::TestClient, home::HomePlaces, wire::TestWire};

struct Server {
    incoming: mpsc::Receiver<Bytes>,
    outgoing: mpsc::Sender<Bytes>,
}

impl Server {
    async fn send(&self, message: Value) {
        self.outgoing.send(message.to_string().into()).await.unwrap();
    }

    async fn received(&mut self) -> Value {
        serde_json::from_slice(&self.incoming.recv().await.unwrap()).unwrap()
    }
}

fn pair() -> (TestClient, Server) {
    let (wire, incoming, outgoing) = TestWire::with_channels();
    let places = HomePlaces { home: "/home".into(), workspace: "/work".into() };
    (TestClient::new(wire, places, Vec::new()), Server { incoming, outgoing })
}

fn archived(thread: &str) -> Value {
    json!({ "method": "thread/archived", "params": { "threadId": thread } })
}

fn closed(thread: &str) -> Value {
    json!({ "method": "thread/closed", "params": { "threadId": thread } })
}

fn panic_text(outcome: std::thread::Result<()>) -> String {
    let panic = outcome.expect_err("it panics");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

#[tokio::test]
async fn until_reads_earlier_messages_and_take_does_not() {
    let (mut client, server) = pair();
    server.send(archived("a")).await;
    server.send(closed("b")).await;
    server.send(archived("c")).await;

    assert_eq!(&*client.take::<ThreadClosed>().await.thread_id, "b");
    assert_eq!(&*client.take::<ThreadArchived>().await.thread_id, "a");
    server.send(closed("d")).await;
    assert_eq!(&*client.until::<ThreadClosed>().await.thread_id, "d");
}

#[tokio::test]
async fn messages_before_an_answer_are_queued_in_order() {
    let (mut client, mut server) = pair();
    let pending = client.send::<ThreadLoadedList>(Default::default()).await;
    let id = server.received().await["id"].clone();
    server.send(archived("a")).await;
    server.send(json!({ "id": id, "result": { "data": ["t"], "nextCursor": null } })).await;
    assert_eq!(&*client.answer(pending).await.unwrap().data[0], "t");
    assert_eq!(&*client.until::<ThreadArchived>().await.thread_id, "a");
}

#[tokio::test]
async fn a_request_is_expected_and_answered() {
    let (mut client, mut server) = pair();
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "command": "ls" });
    server
        .send(json!({ "method": "item/commandExecution/requestApproval", "id": 0, "params": params }))
        .await;
    let asked = client.expect_request::<CommandExecutionApproval>().await;
    assert_eq!((asked.id.clone(), asked.params.command.as_deref()), (RequestId::Integer(0), Some("ls")));
    let answer: CommandExecutionRequestApprovalResponse =
        serde_json::from_value(json!({ "decision": "accept" })).unwrap();
    client.reply(&asked, answer).await;
    assert_eq!(server.received().await, json!({ "id": 0, "result": { "decision": "accept" } }));
}

#[tokio::test]
async fn a_failed_call_panics_with_the_error() {
    let (mut client, mut server) = pair();
    let test = async {
        let call = AssertUnwindSafe(client.call::<ThreadLoadedList>(Default::default())).catch_unwind();
        let answer = async {
            let id = server.received().await["id"].clone();
            server.send(json!({ "error": { "code": -32600, "message": "no such thing" }, "id": id })).await;
        };
        tokio::join!(call, answer).0.map(drop)
    };
    assert_eq!(panic_text(test.await), "thread/loaded/list failed with -32600: no such thing");
}

#[tokio::test]
async fn a_message_left_unread_fails_the_test() {
    let (client, server) = pair();
    server.send(closed("b")).await;
    let text = panic_text(catch_unwind(AssertUnwindSafe(|| drop(client))));
    assert_eq!(text, "messages were left unread:\n← thread/closed");

    let (mut client, server) = pair();
    server.send(closed("b")).await;
    client.ignore_rest();
    drop(client);
}

#[tokio::test]
async fn a_message_of_the_wrong_shape_fails_the_test() {
    let (mut client, server) = pair();
    server.send(json!({ "method": "thread/name/updated", "params": { "threadName": "no thread" } })).await;
    let wait = AssertUnwindSafe(client.until::<ThreadNameUpdated>()).catch_unwind().await.map(drop);
    assert!(panic_text(wait).starts_with("thread/name/updated does not have its params"), "it says so");
}
