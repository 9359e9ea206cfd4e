//! Restarts: servers that crash, and what the supervisor does with calls, turns and threads.

use std::time::Duration;

use codicil_client::{Client, ClientError, RestartLimits, Supervisor, protocol::*, turn};
use serde_json::json;

use crate::{
    fake::message,
    listener::{TestConnection, TestListener},
    soon,
};

impl TestListener {
    /// A supervisor with its first server.
    async fn supervised(&self, limits: RestartLimits) -> (Supervisor, TestConnection) {
        let starting = Supervisor::start(Client::builder(), self.address.clone(), limits);
        let (supervisor, connection) = tokio::join!(starting, self.accept());
        (supervisor.unwrap(), connection)
    }
}

fn quick() -> RestartLimits {
    RestartLimits { delay: Duration::from_millis(1), ..RestartLimits::default() }
}

#[tokio::test]
async fn a_turn_without_any_work_is_repeated_on_the_next_server() {
    let listener = TestListener::new();
    let (supervisor, mut first) = listener.supervised(quick()).await;
    let (thread, ()) = tokio::join!(supervisor.start_thread(Default::default()), first.start_thread("t"));
    let thread = thread.unwrap();
    let (done, second) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Hi")), async {
        first.take_turn("t", "u1").await;
        drop(first);
        let mut second = listener.accept().await;
        let resume = second.expect("thread/resume").await;
        assert_eq!(resume["params"]["threadId"], "t");
        second.reply(&resume, json!({ "thread": { "id": "t" } })).await;
        second.take_turn("t", "u2").await;
        second.complete("t", "u2", "Second attempt").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "Second attempt");
    drop((supervisor, second));
}

#[tokio::test]
async fn a_turn_with_work_fails_and_a_lost_thread_is_started_anew() {
    let listener = TestListener::new();
    let (supervisor, mut first) = listener.supervised(quick()).await;
    let (thread, ()) = tokio::join!(supervisor.start_thread(Default::default()), first.start_thread("t"));
    let thread = thread.unwrap();
    let (interrupted, ()) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Hi")), async {
        first.take_turn("t", "u").await;
        let params = json!({ "threadId": "t", "turnId": "u", "item": message("i", "I did something") });
        first.send(json!({ "method": "item/started", "params": params })).await;
        drop(first);
    });
    assert_eq!(interrupted.unwrap_err().name(), "port_exit");

    let (done, mut second) = tokio::join!(supervisor.run_turn(turn(&thread.id, "Again")), async {
        let mut second = listener.accept().await;
        let resume = second.expect("thread/resume").await;
        let error = json!({ "code": -32600, "message": "no rollout found" });
        second.send(json!({ "id": resume["id"], "error": error })).await;
        second.start_thread("t2").await;
        second.take_turn("t2", "u2").await;
        second.complete("t2", "u2", "New thread").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "New thread");
    assert_eq!(&*supervisor.current_id(&thread.id), "t2");
    // The next turn neither resumes nor starts a thread.
    let (done, ()) = tokio::join!(supervisor.run_turn(turn(&thread.id, "More")), async {
        second.take_turn("t2", "u3").await;
        second.complete("t2", "u3", "More").await;
    });
    assert_eq!(done.unwrap().agent_message, "More");
    soon(supervisor.close()).await;
    assert_eq!(soon(second.lines.next_line()).await.unwrap(), None);
}

#[tokio::test]
async fn the_supervisor_gives_up_after_three_restarts_in_a_row() {
    let listener = TestListener::new();
    let (supervisor, first) = listener.supervised(quick()).await;
    drop(first);
    for _ in 0..3 {
        drop(listener.accept().await);
    }
    let error = loop {
        // Until it has noticed, it may still give out the last client.
        match soon(supervisor.client()).await {
            Ok(client) => drop(soon(client.disconnected()).await),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Disconnected(_)), "{error}");
    assert_eq!(soon(supervisor.run_turn(turn(&"t".into(), "Hi"))).await.unwrap_err().name(), "port_exit");
}

#[tokio::test]
async fn a_later_call_restarts_a_server_that_was_given_up() {
    let listener = TestListener::new();
    let later = RestartLimits { max_restarts: 0, retry_after: Some(Duration::ZERO), ..quick() };
    let (supervisor, first) = listener.supervised(later).await;
    let client = supervisor.client().await.unwrap();
    drop(first);
    soon(client.disconnected()).await;
    let (connection, second) = tokio::join!(supervisor.connection(), listener.accept());
    assert_eq!(connection.unwrap().1, 1);
    drop(second);
    // Each call makes one attempt and returns its error.
    drop(listener);
    let error = loop {
        match soon(supervisor.client()).await {
            Ok(client) => drop(soon(client.disconnected()).await),
            Err(error) => break error,
        }
    };
    assert_eq!(error.name(), "connect", "{error}");
}

#[tokio::test]
async fn a_server_stays_down_without_retry_after() {
    let listener = TestListener::new();
    let (supervisor, first) =
        listener.supervised(RestartLimits { max_restarts: 0, retry_after: None, ..quick() }).await;
    let client = supervisor.client().await.unwrap();
    drop(first);
    soon(client.disconnected()).await;
    for _ in 0..3 {
        assert_eq!(soon(supervisor.client()).await.unwrap_err().name(), "port_exit");
    }
}

#[tokio::test]
async fn pending_calls_fail_with_the_reason_and_new_ones_wait_for_the_next_server() {
    let listener = TestListener::new();
    let (supervisor, mut first) = listener.supervised(quick()).await;
    let client = supervisor.client().await.unwrap();
    let call = client.call::<ModelList>(Default::default());
    first.expect("model/list").await;
    drop(first);
    assert_eq!(soon(call).await.unwrap_err().name(), "port_exit");
    let (client, mut second) = tokio::join!(supervisor.client(), listener.accept());
    let client = client.unwrap();
    let (models, ()) = tokio::join!(client.list_models(Default::default()), async {
        let request = second.expect("model/list").await;
        second.reply(&request, json!({ "data": [] })).await;
    });
    assert!(models.unwrap().data.is_empty());
}

#[tokio::test]
async fn each_connection_has_a_generation() {
    let listener = TestListener::new();
    let (supervisor, first) = listener.supervised(quick()).await;
    let (client, number) = supervisor.connected().unwrap();
    assert_eq!(number, 0);
    drop(first);
    soon(client.disconnected()).await;
    let (connection, second) = tokio::join!(supervisor.connection(), listener.accept());
    assert_eq!(connection.unwrap().1, 1);
    soon(supervisor.close()).await;
    assert!(supervisor.connected().is_none());
    assert_eq!(soon(supervisor.connection()).await.unwrap_err().name(), "port_exit");
    drop(second);
}

#[tokio::test]
async fn a_turn_with_work_outside_the_protocols_table_is_not_repeated() {
    let listener = TestListener::new();
    let (supervisor, mut first) = listener.supervised(quick()).await;
    let (interrupted, ()) = tokio::join!(supervisor.run_turn(turn(&"t".into(), "Hi")), async {
        first.take_turn("t", "u").await;
        first.send(json!({ "method": "item/mcpToolCall/started", "params": { "tool": "launch" } })).await;
        drop(first);
    });
    assert_eq!(interrupted.unwrap_err().name(), "port_exit");
}

#[tokio::test]
async fn a_suspended_server_is_started_again_by_the_next_call() {
    let listener = TestListener::new();
    let (supervisor, mut first) = listener.supervised(quick()).await;
    let (thread, ()) = tokio::join!(supervisor.start_thread(Default::default()), first.start_thread("t"));
    let thread = thread.unwrap();
    let ((), end) = tokio::join!(soon(supervisor.suspend()), soon(first.lines.next_line()));
    assert!(end.unwrap().is_none() && supervisor.connected().is_none());
    // Nothing is started before it is needed.
    soon(supervisor.suspend()).await;
    let (done, second) = tokio::join!(soon(supervisor.run_turn(turn(&thread.id, "Hi"))), async {
        let mut second = listener.accept().await;
        let resume = second.expect("thread/resume").await;
        second.reply(&resume, json!({ "thread": { "id": "t" } })).await;
        second.take_turn("t", "u").await;
        second.complete("t", "u", "Awake").await;
        second
    });
    assert_eq!(done.unwrap().agent_message, "Awake");
    // It does not count as a crash.
    assert_eq!(supervisor.connected().map(|(_, generation)| generation), Some(1));
    drop((supervisor, second));
}
