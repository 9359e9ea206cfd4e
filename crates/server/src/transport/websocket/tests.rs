use codicil_agent::Audience;
use codicil_protocol::{Frame, ThreadArchived, ThreadArchivedNotification, ThreadId};
use tokio::{io::DuplexStream, task::JoinHandle};

use super::*;
use crate::{fixture, limits::MAX_WAITING_BYTES};

const HELLO: &str = r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"test","version":"1"}}}"#;

/// A websocket over a pipe that holds little, so that it is the server's own memory that fills up.
async fn connect(server: &Server) -> (WebSocketStream<DuplexStream>, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(16 << 10);
    let serving = tokio::spawn(serve(server.clone(), far));
    let mut socket = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
    socket.send(Message::text(HELLO)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().contains(r#""id":0"#), "{answer}");
    (socket, serving)
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_disconnected_and_its_neighbour_hears_everything() {
    let (server, _home) = fixture::server();
    let (slow, slow_serving) = connect(&server).await;
    let (mut fast, _) = connect(&server).await;
    let thread_id = ThreadId::from("x".repeat(1 << 20));
    let large = Frame::notification::<ThreadArchived>(&ThreadArchivedNotification { thread_id });

    let enough = MAX_WAITING_BYTES / (1 << 20) + 2;
    for _ in 0..enough {
        server.shared.clients.tell_all(&large);
        assert_eq!(fast.next().await.unwrap().unwrap().len(), large.bytes().len());
    }

    slow_serving.await.unwrap();
    assert_eq!(server.shared.clients.count(), 1, "the slow one is forgotten");
    // What had left before is still there to be read, and then the connection is over.
    let heard: Vec<_> = slow.collect().await;
    assert!(heard.len() < enough, "{} messages", heard.len());
    fast.send(Message::text(r#"{"id":1,"method":"thread/loaded/list"}"#)).await.unwrap();
    assert!(fast.next().await.unwrap().unwrap().to_text().unwrap().contains(r#""id":1"#));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_is_said_to_its_clients() {
    let (server, _home) = fixture::server();
    let (mut socket, serving) = connect(&server).await;
    server.stop().await;
    let Message::Close(Some(farewell)) = socket.next().await.unwrap().unwrap() else {
        panic!("a goodbye is expected")
    };
    assert_eq!(farewell.code, CloseCode::Normal);
    serving.await.unwrap();
}

#[tokio::test]
async fn pings_are_answered_and_binary_frames_read() {
    let (server, _home) = fixture::server();
    let (mut socket, _) = connect(&server).await;
    socket.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("are you there".into()));
    socket.send(Message::binary(&b"\xff\xfe not text"[..])).await.unwrap();
    let request = r#"{"id":"b","method":"thread/loaded/list"}"#;
    socket.send(Message::binary(request.as_bytes().to_vec())).await.unwrap();
    assert!(socket.next().await.unwrap().unwrap().to_text().unwrap().contains(r#""id":"b""#));
}
