//! Unix sockets and websockets.

use codicil_client::{Client, ClientError, DisconnectCause, UnixSocket, WebSocket, protocol::*};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, UnixListener},
};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

use crate::soon;

#[tokio::test]
async fn over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (reader, mut writer) = listener.accept().await.unwrap().0.into_split();
        let mut lines = BufReader::new(reader).lines();
        let mut count = 0;
        while let Some(line) = lines.next_line().await.unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap();
            if message.get("id").is_some() {
                let answer = json!({ "id": message["id"], "result": { "data": [] } });
                writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            count += 1;
        }
        count
    });
    let client = soon(Client::builder().connect(UnixSocket::new(&path))).await.unwrap();
    soon(client.list_models(Default::default())).await.unwrap();
    soon(client.close()).await;
    assert_eq!(soon(serving).await.unwrap(), 3, "the server sees the end");
    let absent = UnixSocket::new(folder.path().join("absent"));
    assert_eq!(soon(Client::builder().connect(absent)).await.unwrap_err().name(), "connect");
}

/// Serves one websocket: checks the token, answers each request, and closes the connection on `model/list`.
#[expect(clippy::result_large_err, reason = "the library wants the whole refusal by value")]
async fn serve(listener: TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let check = |request: &Request, response: Response| {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        if header("authorization") == Some("Bearer s3cret") && header("x-team") == Some("blue") {
            Ok(response)
        } else {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::UNAUTHORIZED;
            Err(refusal)
        }
    };
    let Ok(mut socket) = accept_hdr_async(stream, check).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        if message["method"] == "model/list" {
            let frame = CloseFrame { code: CloseCode::Policy, reason: "too many unread messages".into() };
            socket.close(Some(frame)).await.unwrap();
        } else if message.get("id").is_some() {
            let answer = json!({ "id": message["id"], "result": { "data": [] } }).to_string();
            socket.send(Message::Ping("still there?".into())).await.unwrap();
            socket.send(Message::Text(answer.into())).await.unwrap();
        }
    }
}

#[tokio::test]
async fn over_a_websocket_with_a_token_and_headers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(serve(listener));
    let socket = WebSocket::new(url).bearer("s3cret\n").header("X-Team", "blue");
    let client = soon(Client::builder().connect(socket)).await.unwrap();
    soon(client.list_threads(Default::default())).await.unwrap();
    let error = soon(client.call::<ModelList>(Default::default())).await.unwrap_err();
    let ClientError::Disconnected(reason) = error else { panic!("{error}") };
    assert_eq!(reason.cause, DisconnectCause::ClosedByServer("1008 too many unread messages".into()));
    soon(serving).await.unwrap();
}

#[tokio::test]
async fn a_websocket_that_does_not_open_says_why_and_no_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/?token=s3cret", listener.local_addr().unwrap());
    let serving = tokio::spawn(serve(listener));
    let socket = WebSocket::new(&url).bearer("s3cret-but-wrong");
    let error = soon(Client::builder().connect(socket)).await.unwrap_err().to_string();
    assert!(error.contains("the server answered 401") && !error.contains("s3cret"), "{error}");
    soon(serving).await.unwrap();
    for url in [url.as_str(), "http://127.0.0.1:1", "ws://", "nonsense"] {
        let error = soon(Client::builder().connect(WebSocket::new(url))).await.unwrap_err();
        assert_eq!(error.name(), "connect", "{url}: {error}");
    }
    let socket = WebSocket::new("ws://127.0.0.1:1").header("bad\nname", "s3cret");
    let error = soon(Client::builder().connect(socket)).await.unwrap_err().to_string();
    assert!(error.contains("is not valid") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn over_a_websocket_the_directory_is_left_to_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (seen, mut requests) = tokio::sync::mpsc::channel(8);
    let serving = tokio::spawn(async move {
        let stream = listener.accept().await.unwrap().0;
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(Message::Text(text))) = socket.next().await {
            let message: Value = serde_json::from_str(&text).unwrap();
            let answer = json!({ "id": message["id"], "result": { "thread": { "id": "t" } } }).to_string();
            if message.get("id").is_some() {
                socket.send(Message::Text(answer.into())).await.unwrap();
            }
            seen.send(message).await.unwrap();
        }
    });
    let client = soon(Client::builder().connect(WebSocket::new(url))).await.unwrap();
    soon(client.start_thread(Default::default())).await.unwrap();
    drop(client);
    soon(serving).await.unwrap();
    let mut starts = Vec::new();
    while let Some(message) = soon(requests.recv()).await {
        if message["method"] == "thread/start" {
            starts.push(message["params"].get("cwd").cloned());
        }
    }
    assert_eq!(starts, [None]);
}
