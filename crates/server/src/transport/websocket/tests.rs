use codicil_engine::ThreadClients;
use codicil_protocol::{Frame, ThreadArchived, ThreadArchivedNotification, ThreadId};
use futures_util::stream::SplitStream;
use tokio::{io::DuplexStream, task::JoinHandle};
use tokio_tungstenite::tungstenite::protocol::frame::{
    Frame as WsFrame,
    coding::{Data, OpCode},
};

use super::*;
use crate::{
    fixture,
    inbound::InboundBudget,
    limits::{MAX_EARLY_MESSAGE_BYTES, MAX_UNREAD_BYTES},
};

const HELLO: &str = r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"test","version":"1"}}}"#;

/// Opens a websocket over a small pipe, so that unread messages stay in the server's memory.
async fn open(server: &Server) -> (WebSocketStream<DuplexStream>, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(16 << 10);
    let serving = tokio::spawn(serve(server.clone(), far));
    (WebSocketStream::from_raw_socket(near, Role::Client, None).await, serving)
}

/// Opens a websocket and initializes it.
async fn connect(server: &Server) -> (WebSocketStream<DuplexStream>, JoinHandle<()>) {
    let (mut socket, serving) = open(server).await;
    socket.send(Message::text(HELLO)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().contains(r#""id":0"#), "{answer}");
    (socket, serving)
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_disconnected_and_other_clients_get_everything() {
    let (server, _home) = fixture::server();
    let (slow, slow_serving) = connect(&server).await;
    let (mut fast, _) = connect(&server).await;
    let thread_id = ThreadId::from("x".repeat(1 << 20));
    let large = Frame::notification::<ThreadArchived>(&ThreadArchivedNotification { thread_id });

    let enough = MAX_UNREAD_BYTES / (1 << 20) + 2;
    for _ in 0..enough {
        server.shared.clients.notify_all(&large);
        assert_eq!(fast.next().await.unwrap().unwrap().len(), large.bytes().len());
    }

    slow_serving.await.unwrap();
    assert_eq!(server.shared.clients.count(), 1, "the slow client is removed");
    // Messages that were sent before can still be read, then the connection is over.
    let received: Vec<_> = slow.collect().await;
    assert!(received.len() < enough, "{} messages", received.len());
    fast.send(Message::text(r#"{"id":1,"method":"thread/loaded/list"}"#)).await.unwrap();
    assert!(fast.next().await.unwrap().unwrap().to_text().unwrap().contains(r#""id":1"#));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_sends_close_frames() {
    let (server, _home) = fixture::server();
    let (mut socket, serving) = connect(&server).await;
    server.stop().await;
    let Message::Close(Some(close_frame)) = socket.next().await.unwrap().unwrap() else {
        panic!("expected a close frame")
    };
    assert_eq!(close_frame.code, CloseCode::Normal);
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

/// Makes a fragment that is not the last one of its message.
fn fragment(data: Data, bytes: usize) -> Message {
    Message::Frame(WsFrame::message(vec![b' '; bytes], OpCode::Data(data), false))
}

/// Reads up to the close frame and returns its code.
async fn close_code(socket: &mut SplitStream<WebSocketStream<DuplexStream>>) -> CloseCode {
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Close(Some(close_frame)) = message {
            return close_frame.code;
        }
    }
    panic!("expected a close frame")
}

#[tokio::test]
async fn a_long_message_before_initialize_closes_the_connection() {
    let (server, _home) = fixture::server();
    let mut early = vec![Message::text(" ".repeat(MAX_EARLY_MESSAGE_BYTES + 1))];
    early.push(fragment(Data::Text, 2 * MAX_EARLY_MESSAGE_BYTES));
    for message in early {
        let (socket, serving) = open(&server).await;
        let (mut sink, mut messages) = socket.split();
        // The server does not read all of it.
        let sending = tokio::spawn(async move { drop(sink.send(message).await) });
        assert_eq!(close_code(&mut messages).await, CloseCode::Size);
        serving.await.unwrap();
        sending.abort();
    }
    assert_eq!(server.shared.clients.count(), 0);
}

#[tokio::test]
async fn a_long_message_may_directly_follow_initialize() {
    let (server, _home) = fixture::server();
    let (socket, _) = open(&server).await;
    let (mut sink, mut messages) = socket.split();
    let padding = " ".repeat(3 * MAX_EARLY_MESSAGE_BYTES);
    let request = format!(r#"{{"id":1,{padding}"method":"thread/loaded/list"}}"#);
    let sending = async {
        sink.feed(Message::text(HELLO)).await.unwrap();
        sink.send(Message::text(request)).await.unwrap();
    };
    let receiving = async { [messages.next().await.unwrap(), messages.next().await.unwrap()] };
    let ((), answers) = tokio::join!(sending, receiving);
    for (id, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        let expected = format!(r#"{{"id":{id},"result":"#);
        assert!(answer.to_text().unwrap().starts_with(&expected), "{answer}");
    }
}

#[tokio::test]
async fn beyond_the_budget_the_client_with_the_longest_message_is_disconnected() {
    let (mut server, _home) = fixture::server();
    Arc::get_mut(&mut server.shared).unwrap().inbound = Arc::new(InboundBudget::new(5 << 20));
    let (large, _) = connect(&server).await;
    let (mut small, _) = connect(&server).await;
    let (mut large_sink, mut large_messages) = large.split();
    large_sink.send(fragment(Data::Text, 2 << 20)).await.unwrap();
    large_sink.send(fragment(Data::Continue, 1 << 20)).await.unwrap();
    // A ping between fragments does not reset the count.
    small.send(fragment(Data::Text, 1 << 20)).await.unwrap();
    small.send(Message::Ping("still there".into())).await.unwrap();
    assert!(small.next().await.unwrap().unwrap().is_pong());

    let growing = tokio::spawn(async move { drop(large_sink.send(fragment(Data::Continue, 2 << 20)).await) });

    assert_eq!(close_code(&mut large_messages).await, CloseCode::Again);
    growing.abort();
    let rest = br#"{"id":1,"method":"thread/loaded/list"}"#.to_vec();
    let last = WsFrame::message(rest, OpCode::Data(Data::Continue), true);
    small.send(Message::Frame(last)).await.unwrap();
    let answer = small.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().starts_with(r#"{"id":1,"result":"#), "{answer}");
}
