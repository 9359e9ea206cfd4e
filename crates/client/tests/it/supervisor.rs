//! Servers that die and come back.

use std::time::Duration;

use codicil_client::{Client, ClientError, RestartLimits, Supervisor, UnixSocket, protocol::*, turn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixListener,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    fake::{message, running},
    soon,
};

/// A place where servers listen, one life after the other.
struct Place {
    _folder: tempfile::TempDir,
    address: UnixSocket,
    listener: UnixListener,
}

/// One life of a server.
struct Life {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        Self { _folder: folder, address: UnixSocket::new(path), listener }
    }

    async fn life(&self) -> Life {
        let (reader, writer) = soon(self.listener.accept()).await.unwrap().0.into_split();
        let mut life = Life { lines: BufReader::new(reader).lines(), writer };
        let hello = life.expect("initialize").await;
        life.reply(&hello, json!({})).await;
        life.expect("initialized").await;
        life
    }

    /// A supervisor with its first server.
    async fn supervised(&self, supervision: RestartLimits) -> (Supervisor, Life) {
        let starting = Supervisor::start(Client::builder(), self.address.clone(), supervision);
        let (supervisor, life) = tokio::join!(starting, self.life());
        (supervisor.unwrap(), life)
    }
}

impl Life {
    async fn expect(&mut self, method: &str) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().expect("the client goes on");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn take_turn(&mut self, thread: &str, turn: &str) {
        let request = self.expect("turn/start").await;
        assert_eq!(request["params"]["threadId"], thread);
        self.reply(&request, json!({ "turn": running(turn) })).await;
    }

    async fn complete(&mut self, thread: &str, turn: &str, text: &str) {
        let params = json!({ "threadId": thread, "turnId": turn, "item": message("i", text) });
        self.send(json!({ "method": "item/completed", "params": params })).await;
        let turn = json!({ "id": turn, "items": [], "status": "completed", "error": null });
        let params = json!({ "threadId": thread, "turn": turn });
        self.send(json!({ "method": "turn/completed", "params": params })).await;
    }

    async fn start_thread(&mut self, id: &str) {
        let request = self.expect("thread/start").await;
        self.reply(&request, json!({ "thread": { "id": id } })).await;
    }
}

fn quick() -> RestartLimits {
    RestartLimits { pause: Duration::from_millis(1), ..RestartLimits::default() }
}

#[tokio::test]
async fn a_turn_of_which_nothing_had_begun_runs_on_the_next_server() {
    let place = Place::new();
    let (supervisor, mut first) = place.supervised(quick()).await;
    let (thread, ()) = tokio::join!(supervisor.start_thread(Default::default()), first.start_thread("t"));
    let thread = thread.unwrap();
    let (done, second) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Hi")), async {
        first.take_turn("t", "u1").await;
        drop(first);
        let mut second = place.life().await;
        let resume = second.expect("thread/resume").await;
        assert_eq!(resume["params"]["threadId"], "t");
        second.reply(&resume, json!({ "thread": { "id": "t" } })).await;
        second.take_turn("t", "u2").await;
        second.complete("t", "u2", "Here again").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "Here again");
    drop((supervisor, second));
}

#[tokio::test]
async fn a_turn_that_had_begun_is_reported_and_the_thread_started_anew_if_it_is_gone() {
    let place = Place::new();
    let (supervisor, mut first) = place.supervised(quick()).await;
    let (thread, ()) = tokio::join!(supervisor.start_thread(Default::default()), first.start_thread("t"));
    let thread = thread.unwrap();
    let (cut, ()) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Hi")), async {
        first.take_turn("t", "u").await;
        let params = json!({ "threadId": "t", "turnId": "u", "item": message("i", "I did something") });
        first.send(json!({ "method": "item/started", "params": params })).await;
        drop(first);
    });
    assert_eq!(cut.unwrap_err().name(), "port_exit");

    let (done, mut second) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Again")), async {
        let mut second = place.life().await;
        let resume = second.expect("thread/resume").await;
        let error = json!({ "code": -32600, "message": "no rollout found" });
        second.send(json!({ "id": resume["id"], "error": error })).await;
        second.start_thread("t2").await;
        second.take_turn("t2", "u2").await;
        second.complete("t2", "u2", "A new start").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "A new start");
    assert_eq!(&*supervisor.current_id(&thread.id), "t2");
    // The next turn needs neither.
    let (done, ()) = tokio::join!(supervisor.run_turn(turn(&thread.id, "More")), async {
        second.take_turn("t2", "u3").await;
        second.complete("t2", "u3", "More").await;
    });
    assert_eq!(done.unwrap().agent_message, "More");
    soon(supervisor.close()).await;
    assert_eq!(soon(second.lines.next_line()).await.unwrap(), None);
}

#[tokio::test]
async fn it_is_given_up_after_three_restarts_in_a_row() {
    let place = Place::new();
    let (supervisor, first) = place.supervised(quick()).await;
    drop(first);
    for _ in 0..3 {
        drop(place.life().await);
    }
    let error = loop {
        // Until it has noticed, it may still give out the last client.
        match soon(supervisor.client()).await {
            Ok(client) => drop(soon(client.ended()).await),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::PortExit(_)), "{error}");
    assert_eq!(soon(supervisor.run_turn(turn(&"t".into(), "Hi"))).await.unwrap_err().name(), "port_exit");
}

#[tokio::test]
async fn a_server_that_was_given_up_is_tried_again_for_whoever_wants_it_later() {
    let place = Place::new();
    let later = RestartLimits { max_restarts: 0, retry_after: Some(Duration::ZERO), ..quick() };
    let (supervisor, first) = place.supervised(later).await;
    let client = supervisor.client().await.unwrap();
    drop(first);
    soon(client.ended()).await;
    let (connection, second) = tokio::join!(supervisor.connection(), place.life());
    assert_eq!(connection.unwrap().1, 1);
    drop(second);
    // Each call tries once, and is told when that did not help.
    drop(place);
    let error = loop {
        match soon(supervisor.client()).await {
            Ok(client) => drop(soon(client.ended()).await),
            Err(error) => break error,
        }
    };
    assert_eq!(error.name(), "connect", "{error}");
}

#[tokio::test]
async fn a_server_stays_down_where_nobody_wants_it_back() {
    let place = Place::new();
    let (supervisor, first) =
        place.supervised(RestartLimits { max_restarts: 0, retry_after: None, ..quick() }).await;
    let client = supervisor.client().await.unwrap();
    drop(first);
    soon(client.ended()).await;
    for _ in 0..3 {
        assert_eq!(soon(supervisor.client()).await.unwrap_err().name(), "port_exit");
    }
}

#[tokio::test]
async fn pending_calls_fail_with_the_reason_and_new_ones_wait_for_the_next_server() {
    let place = Place::new();
    let (supervisor, mut first) = place.supervised(quick()).await;
    let client = supervisor.client().await.unwrap();
    let call = client.call::<ModelList>(Default::default());
    first.expect("model/list").await;
    drop(first);
    assert_eq!(soon(call).await.unwrap_err().name(), "port_exit");
    let (client, mut second) = tokio::join!(supervisor.client(), place.life());
    let client = client.unwrap();
    let (models, ()) = tokio::join!(client.list_models(Default::default()), async {
        let request = second.expect("model/list").await;
        second.reply(&request, json!({ "data": [] })).await;
    });
    assert!(models.unwrap().data.is_empty());
}

#[tokio::test]
async fn connections_are_numbered_for_those_who_look_after_threads_themselves() {
    let place = Place::new();
    let (supervisor, first) = place.supervised(quick()).await;
    let (client, number) = supervisor.connected().unwrap();
    assert_eq!(number, 0);
    drop(first);
    soon(client.ended()).await;
    let (connection, second) = tokio::join!(supervisor.connection(), place.life());
    assert_eq!(connection.unwrap().1, 1);
    soon(supervisor.close()).await;
    assert!(supervisor.connected().is_none());
    assert_eq!(soon(supervisor.connection()).await.unwrap_err().name(), "port_exit");
    drop(second);
}

#[tokio::test]
async fn a_turn_that_had_begun_in_other_words_is_not_run_twice() {
    let place = Place::new();
    let (supervisor, mut first) = place.supervised(quick()).await;
    let (cut, ()) = tokio::join!(supervisor.run_turn(turn(&"t".into(), "Hi")), async {
        first.take_turn("t", "u").await;
        first.send(json!({ "method": "item/mcpToolCall/started", "params": { "tool": "launch" } })).await;
        drop(first);
    });
    assert_eq!(cut.unwrap_err().name(), "port_exit");
}
