//! The recording of requests.

use bytes::Bytes;
use codicil_testkit::{ModelServer, Reply, Script};
use http_body_util::Full;
use hyper::Request;
use serde_json::json;

use crate::client::{Client, RESPONSES, post, stream};

fn always() -> Script {
    Script::new().repeat(Reply::new().say("ok"))
}

#[tokio::test]
async fn requests_are_recorded_as_they_were_sent() {
    let server = ModelServer::start(always()).await;
    let body = json!({
        "model": "m", "stream": true, "tools": [{ "type": "function", "name": "ls" }],
        "input": [{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Tidy up" }] }],
    });
    let request = Request::post("/v1/responses?api-version=7").header("Session_Id", "thr_1");
    let request: Request<Full<Bytes>> = request.body(body.to_string().into()).unwrap();
    Client::connect(&server).await.send(request).await.unwrap();

    let recorded = server.next_request().await;

    assert_eq!((recorded.method(), recorded.path()), ("POST", "/v1/responses"));
    assert_eq!((recorded.query(), recorded.number()), (Some("api-version=7"), 1));
    assert_eq!(recorded.header("session_id"), Some("thr_1"));
    assert_eq!(recorded.header("authorization"), None);
    assert_eq!(recorded.body(), &body);
    assert_eq!(recorded.input().len(), 1);
    assert_eq!(recorded.tools(), ["ls"]);
    assert_eq!(recorded.last_user_text().as_deref(), Some("Tidy up"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn next_request_returns_each_request_once() {
    let server = ModelServer::start(always()).await;
    let ask = async |number: u64| {
        post(&server, RESPONSES, json!({ "input": number.to_string() })).await;
    };
    ask(1).await;
    ask(2).await;
    assert_eq!(server.next_request().await.last_user_text().as_deref(), Some("1"));
    assert_eq!(server.next_request().await.last_user_text().as_deref(), Some("2"));

    let (third, ()) = tokio::join!(server.next_request(), ask(3));
    assert_eq!(third.last_user_text().as_deref(), Some("3"));
}

/// With a paused clock, the timeout elapses immediately.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "no request to the model within 10s; ModelServer { requests: 0, unused_replies: 1")]
async fn a_timeout_shows_the_state_of_the_server() {
    ModelServer::start(Script::new().say("hi")).await.next_request().await;
}

#[tokio::test]
async fn a_request_is_recorded_before_its_answer() {
    let server = ModelServer::start(Script::new().hold("h").say("hi")).await;
    let asking = stream(&server, RESPONSES);
    tokio::pin!(asking);
    tokio::select! {
        _ = &mut asking => panic!("answered while held"),
        recorded = server.next_request() => assert_eq!(recorded.model(), Some("m")),
    }
}

#[tokio::test]
async fn other_requests_are_recorded_separately() {
    let server = ModelServer::start(Script::new()).await;
    let mut client = Client::connect(&server).await;
    let mut get =
        async |path: &str| client.send(Request::get(path).body(Full::default()).unwrap()).await.unwrap();

    let models = get("/v1/models").await;
    assert_eq!(models.status, 200);
    assert_eq!(models.json().await["data"][0]["id"], "scripted");
    let missing = get("/v1/nowhere").await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json().await["error"]["message"], "nothing at GET /v1/nowhere");
    let wrong_method = get("/v1/responses").await;
    assert_eq!(wrong_method.status, 404);

    let paths: Vec<String> =
        server.other_requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths, ["/v1/models", "/v1/nowhere", "/v1/responses"]);
    assert!(server.requests().is_empty());
    assert!(server.is_finished());
}

#[tokio::test]
async fn invalid_requests_are_rejected_and_recorded() {
    let server = ModelServer::start(Script::new().say("for someone else")).await;
    let mut client = Client::connect(&server).await;

    let garbled = client.send(Request::post(RESPONSES).body("{oops".into()).unwrap()).await.unwrap();
    assert_eq!(garbled.status, 400);
    garbled.text().await;
    let packed = Request::post(RESPONSES).header("content-encoding", "zstd").body("xyz".into()).unwrap();
    assert_eq!(client.send(packed).await.unwrap().status, 415);

    let faults = server.faults();
    assert!(faults[0].contains("#1 POST /v1/responses (5 bytes): not a request to a model"), "{faults:?}");
    assert!(faults[1].contains("zstd"), "{faults:?}");
    assert_eq!(server.requests()[0].bytes(), "{oops");
    assert_eq!(server.unused_replies().len(), 1);
}
