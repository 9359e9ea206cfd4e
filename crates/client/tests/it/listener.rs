//! Sockets at which a test plays one server after another.

use codicil_client::{UnixSocket, WebSocket};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        TcpListener, TcpStream, UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

use crate::{
    fake::{message, running},
    soon,
};

/// A socket at which the test plays one server after another.
pub struct TestListener {
    _folder: tempfile::TempDir,
    pub address: UnixSocket,
    socket: UnixListener,
}

/// The server side of one connection.
pub struct TestConnection {
    pub lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl TestListener {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        Self { _folder: folder, address: UnixSocket::new(path), socket }
    }

    pub async fn accept(&self) -> TestConnection {
        self.accept_with(json!({})).await
    }

    /// Accepts a connection and answers `initialize` with this result.
    pub async fn accept_with(&self, server: Value) -> TestConnection {
        let mut connection = self.accept_refused(server).await;
        connection.expect("initialized").await;
        connection
    }

    /// The same for a client that goes no further.
    pub async fn accept_refused(&self, server: Value) -> TestConnection {
        let mut connection = TestConnection::new(soon(self.socket.accept()).await.unwrap().0);
        let hello = connection.expect("initialize").await;
        connection.reply(&hello, server).await;
        connection
    }
}

/// The token of a [`TestNode`].
const TOKEN: &str = "s3cret";

/// An address at which a test plays a server with a token, over websockets.
pub struct TestNode {
    listener: TcpListener,
    pub url: String,
}

impl TestNode {
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        Self { listener, url }
    }

    pub fn address(&self) -> WebSocket {
        WebSocket::new(&self.url).bearer(TOKEN)
    }

    /// Accepts a connection with the token and answers `initialize` with this result.
    #[expect(clippy::result_large_err, reason = "the library wants the whole refusal by value")]
    pub async fn accept(&self, server: Value) -> TestConnection {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(request.headers()["authorization"], format!("Bearer {TOKEN}"));
            Ok(response)
        };
        let socket = soon(accept_hdr_async(stream, check)).await.unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        // Ends with the connection of the test or of the client.
        tokio::spawn(pass_on(socket, far));
        let mut connection = TestConnection::new(near);
        let hello = connection.expect("initialize").await;
        assert_eq!(hello["params"]["capabilities"]["codicil"]["redirect"], true, "{hello}");
        connection.reply(&hello, server).await;
        connection.expect("initialized").await;
        connection
    }
}

/// Passes messages on between a websocket and lines.
async fn pass_on(mut socket: WebSocketStream<TcpStream>, lines: UnixStream) {
    let (reader, mut writer) = lines.into_split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => socket.send(Message::Text(line.into())).await.unwrap(),
                _ => return,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

impl TestConnection {
    fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&mut self) {
        let line = soon(self.lines.next_line()).await.unwrap();
        assert_eq!(line, None);
    }

    pub async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(json!({ "id": request["id"], "error": error })).await;
    }

    pub async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().expect("the connection is open");
        serde_json::from_str(&line).unwrap()
    }

    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result })).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    pub async fn send_line(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub async fn take_turn(&mut self, thread: &str, turn: &str) {
        let request = self.expect("turn/start").await;
        assert_eq!(request["params"]["threadId"], thread);
        self.reply(&request, json!({ "turn": running(turn) })).await;
    }

    pub async fn complete(&mut self, thread: &str, turn: &str, text: &str) {
        let params = json!({ "threadId": thread, "turnId": turn, "item": message("i", text) });
        self.send(json!({ "method": "item/completed", "params": params })).await;
        let turn = json!({ "id": turn, "items": [], "status": "completed", "error": null });
        let params = json!({ "threadId": thread, "turn": turn });
        self.send(json!({ "method": "turn/completed", "params": params })).await;
    }

    pub async fn start_thread(&mut self, id: &str) {
        let request = self.expect("thread/start").await;
        self.reply(&request, json!({ "thread": { "id": id } })).await;
    }
}
