//! Which reply a request gets.

use std::collections::HashSet;

use codicil_testkit::{ModelServer, RecordedRequest, Reply, Script};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{CHAT, RESPONSES, joined, post, stream};

/// Sends a request and returns the text of the answer.
async fn ask(server: &ModelServer, input: &str) -> String {
    let answer = post(server, RESPONSES, json!({ "stream": true, "input": input })).await;
    joined(&answer.events().await.unwrap(), "response.output_text.delta", "/delta")
}

#[tokio::test]
async fn replies_are_taken_in_order() {
    let script = Script::new().say("one").then().say("two").reply(Reply::new().say("three")).say("four");
    let server = ModelServer::start(script).await;
    for expected in ["one", "two", "three", "four"] {
        assert!(!server.is_finished());
        assert_eq!(ask(&server, "").await, expected);
    }
    assert!(server.is_finished());
}

#[tokio::test]
async fn steps_after_an_ending_begin_the_next_reply() {
    let script = Script::new().say("a").cut().say("b").hang().fail("x", "y").incomplete("z").then().say("c");
    assert_eq!(ModelServer::start(script).await.unused_replies().len(), 5);
}

#[tokio::test]
async fn an_exhausted_script_is_a_fault() {
    let server = ModelServer::start(Script::new()).await;
    let answer = stream(&server, RESPONSES).await;
    assert_eq!(answer.status, 500);
    let message = answer.json().await["error"]["message"].clone();
    assert!(message.as_str().unwrap().starts_with("script has no reply left"), "{message}");
    assert!(!server.is_finished());
    assert_eq!(server.faults().len(), 1);
    assert!(server.faults()[0].starts_with("script has no reply left for #1 POST /v1/responses"));
}

#[tokio::test]
async fn replies_can_be_added_later() {
    let server = ModelServer::start(Script::new()).await;
    server.push(Reply::new().say("one"));
    server.push(Script::new().say("two").then().say("three"));
    assert_eq!(server.unused_replies().len(), 3);
    assert_eq!(ask(&server, "").await, "one");
    assert_eq!(ask(&server, "").await, "two");
    assert_eq!(server.unused_replies().len(), 1);
}

#[tokio::test]
async fn a_repeated_reply_is_used_when_the_queue_is_empty() {
    let server = ModelServer::start(Script::new().say("first").repeat(Reply::new().say("again"))).await;
    assert_eq!(ask(&server, "").await, "first");
    assert_eq!(ask(&server, "").await, "again");
    assert_eq!(ask(&server, "").await, "again");
    assert!(server.is_finished());
}

#[tokio::test]
async fn a_function_may_decide_for_each_request() {
    let mut count = 0;
    let script = Script::new().respond_with(move |request| {
        count += 1;
        Reply::new().say(format!("{count}: {}", request.last_user_text().unwrap()))
    });
    let server = ModelServer::start(script).await;
    assert_eq!(ask(&server, "hello").await, "1: hello");
    assert_eq!(ask(&server, "world").await, "2: world");
}

#[tokio::test]
async fn a_panic_in_the_function_is_a_fault() {
    let server = ModelServer::start(Script::new().respond_with(|_| panic!("no such request"))).await;
    assert_eq!(stream(&server, RESPONSES).await.status, 500);
    assert_eq!(server.faults(), ["the script panicked: no such request"]);
}

#[tokio::test]
async fn a_reply_can_be_reserved_for_a_request() {
    let says = |text: &'static str| {
        move |request: &RecordedRequest| request.last_user_text().is_some_and(|said| said == text)
    };
    let script =
        Script::new().say("for b").when(says("b")).then().say("for a").when(says("a")).then().say("for all");
    let server = ModelServer::start(script).await;
    assert_eq!(ask(&server, "a").await, "for a");
    assert_eq!(ask(&server, "a").await, "for all");
    assert_eq!(server.unused_replies().len(), 1);
    assert_eq!(ask(&server, "b").await, "for b");
}

#[tokio::test]
async fn an_item_of_responses_is_rejected_in_other_dialects() {
    let server = ModelServer::start(Script::new().item(json!({ "type": "local_shell_call" }))).await;
    assert_eq!(stream(&server, CHAT).await.status, 500);
    assert!(server.faults()[0].contains("item() belongs to Responses"));
}

#[tokio::test]
async fn parallel_requests_get_a_reply_each() {
    const REQUESTS: usize = 200;
    let replies =
        (0..REQUESTS).fold(Script::new(), |script, n| script.gate("g").say_deltas([n.to_string()]).then());
    let server = std::sync::Arc::new(ModelServer::start(replies).await);

    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        let server = server.clone();
        asking.spawn(async move { ask(&server, "").await });
    }
    // All of them are open at once before the first may go on.
    for _ in 0..REQUESTS {
        server.next_request().await;
    }
    server.release("g");

    let texts: HashSet<String> = asking.join_all().await.into_iter().collect();
    assert_eq!(texts.len(), REQUESTS);
    assert!(server.is_finished());
}
