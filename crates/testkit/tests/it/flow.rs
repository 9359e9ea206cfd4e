//! Gates, pauses and endings, in every dialect.

use std::time::{Duration, Instant};

use codicil_testkit::{ModelServer, Reply, Script};
use serde_json::json;
use tokio::net::TcpStream;

use crate::client::{Client, DIALECTS, Disconnected, RESPONSES, kinds, post, stream};

#[tokio::test]
async fn a_gate_holds_the_stream_until_it_is_released() {
    for path in DIALECTS {
        let server =
            ModelServer::start(Script::new().say_deltas(["before"]).gate("g").say_deltas(["after"])).await;
        let mut answer = stream(&server, path).await;
        answer.until_delta("before").await;
        server.reached("g").await;

        let early = tokio::time::timeout(Duration::from_millis(20), answer.until_delta("after")).await;
        assert!(early.is_err(), "{path}: the gate let a delta through");
        server.release("g");
        answer.until_delta("after").await;
        answer.events().await.unwrap();
    }
}

#[tokio::test]
async fn a_gate_released_early_stays_open() {
    let server = ModelServer::start(Script::new().repeat(Reply::new().gate("g").say("hi"))).await;
    server.release("g");
    for _ in 0..2 {
        assert!(stream(&server, RESPONSES).await.events().await.is_ok());
    }
}

#[tokio::test]
async fn an_unfinished_message_continues_after_the_gate() {
    let script = Script::new().say_deltas(["one "]).unfinished().gate("g").say_deltas(["two"]);
    let server = ModelServer::start(script).await;
    let mut answer = stream(&server, RESPONSES).await;
    answer.until_delta("one ").await;
    server.release("g");
    let events = answer.events().await.unwrap();
    assert_eq!(
        kinds(&events),
        [
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    assert_eq!(events.last().unwrap().data["response"]["output"][0]["content"][0]["text"], "one two");
}

#[tokio::test]
async fn a_cut_stream_delivers_everything_before_the_cut() {
    for path in DIALECTS {
        let server = ModelServer::start(Script::new().say_deltas(["Let me"]).unfinished().cut()).await;
        let (events, end) = stream(&server, path).await.all_events().await;
        assert_eq!(end, Err(Disconnected), "{path}");
        assert!(events.iter().any(|event| event.data.to_string().contains("Let me")), "{path}: {events:?}");
    }
}

#[tokio::test]
async fn a_cut_loses_nothing_of_a_long_stream() {
    let deltas = 20_000;
    let said = (0..deltas).map(|number| format!("delta {number} "));
    let server = ModelServer::start(Script::new().say_deltas(said).unfinished().cut()).await;
    let (events, end) = stream(&server, RESPONSES).await.all_events().await;
    assert_eq!(end, Err(Disconnected));
    assert_eq!(events.iter().filter(|event| event.kind() == "response.output_text.delta").count(), deltas);
}

#[tokio::test]
async fn a_hanging_stream_ends_when_the_server_is_dropped() {
    for path in DIALECTS {
        let server = ModelServer::start(Script::new().say("Let me").hang()).await;
        let mut answer = stream(&server, path).await;
        answer.until_delta("me").await;
        let address = server.address();

        drop(server);

        assert_eq!(answer.all_events().await.1, Err(Disconnected), "{path}");
        assert!(TcpStream::connect(address).await.is_err(), "{path}: the port is still open");
    }
}

#[tokio::test]
async fn an_idle_connection_ends_when_the_server_is_dropped() {
    let server = ModelServer::start(Script::new()).await;
    let client = Client::connect(&server).await;
    drop(server);
    client.closed().await;
}

#[tokio::test]
async fn disconnecting_from_a_hanging_stream_frees_it() {
    let server = ModelServer::start(Script::new().say("Let me").hang()).await;
    let mut answer = stream(&server, RESPONSES).await;
    answer.until_delta("me").await;
    drop(answer);
    server.until_idle().await;
}

#[tokio::test]
async fn deltas_keep_their_pace() {
    let pace = Duration::from_millis(5);
    let server = ModelServer::start(Script::new().pace(pace).say_deltas(["a", "b", "c", "d"])).await;
    let started_at = Instant::now();
    let mut answer = stream(&server, RESPONSES).await;
    answer.until_delta("a").await;
    answer.until_delta("d").await;
    assert!(started_at.elapsed() >= pace * 3, "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn a_pause_delays_the_stream() {
    let pause = Duration::from_millis(15);
    let server = ModelServer::start(Script::new().say("a").pause(pause).say("b")).await;
    let started_at = Instant::now();
    stream(&server, RESPONSES).await.events().await.unwrap();
    assert!(started_at.elapsed() >= pause);
}

#[tokio::test]
async fn a_held_answer_has_no_status_line() {
    let server = ModelServer::start(Script::new().hold("h").say("hi")).await;
    let asking = stream(&server, RESPONSES);
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("answered while held"),
        () = server.reached("h") => {}
    }
    server.release("h");
    assert_eq!(asking.await.status, 200);
}

#[tokio::test]
async fn status_replies_carry_headers_and_bodies() {
    let body = json!({ "error": { "message": "slow down" } });
    let script = Script::new()
        .reply(Reply::status(429).header("retry-after", "1").body(body.clone()))
        .reply(Reply::status(502).header("content-type", "text/html").body_text("<html>bad gateway</html>"))
        .header("openai-model", "other")
        .say("hi");
    let server = ModelServer::start(script).await;

    let limited = stream(&server, RESPONSES).await;
    assert_eq!(limited.status, 429);
    assert_eq!(limited.headers["retry-after"], "1");
    assert_eq!(limited.headers["content-type"], "application/json");
    assert_eq!(limited.json().await, body);

    let proxy = stream(&server, RESPONSES).await;
    assert_eq!(proxy.status, 502);
    assert_eq!(proxy.headers.get_all("content-type").iter().collect::<Vec<_>>(), ["text/html"]);
    assert_eq!(proxy.text().await, "<html>bad gateway</html>");

    let good = stream(&server, RESPONSES).await;
    assert_eq!(good.status, 200);
    assert_eq!(good.headers["openai-model"], "other");
    assert_eq!(good.headers["content-type"], "text/event-stream");
}

#[tokio::test]
async fn a_status_without_body_has_an_error_of_its_dialect() {
    for (path, pointer) in DIALECTS.into_iter().zip(["/error/code", "/error/code", "/error/type"]) {
        let server = ModelServer::start(Reply::status(503)).await;
        let answer = stream(&server, path).await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json().await.pointer(pointer).unwrap(), "scripted_status", "{path}");
    }
}

#[tokio::test]
async fn hanging_up_closes_the_connection_without_an_answer() {
    let server = ModelServer::start(Reply::hang_up()).await;
    let mut client = Client::connect(&server).await;
    assert!(client.post(RESPONSES, json!({ "stream": true })).await.is_err());
    client.closed().await;
    assert!(server.is_finished());
}

#[tokio::test]
async fn a_cut_without_a_stream_is_no_answer() {
    let server = ModelServer::start(Script::new().say("x").cut()).await;
    let mut client = Client::connect(&server).await;
    assert!(client.post(RESPONSES, json!({ "model": "m" })).await.is_err());
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let script = Script::new().say("a").then().reply(Reply::status(500)).say("b");
    let server = ModelServer::start(script).await;
    let mut client = Client::connect(&server).await;
    for status in [200, 500, 200] {
        let answer = client.post(RESPONSES, json!({ "stream": true })).await.unwrap();
        assert_eq!(answer.status, status);
        answer.text().await;
    }
    assert_eq!(post(&server, RESPONSES, json!({})).await.status, 500, "nothing is left");
}
