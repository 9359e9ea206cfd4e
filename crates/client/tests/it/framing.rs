//! Line framing, and lines that are not messages.

use codicil_client::{Client, ClientEvent, ClientLimits, Endpoint, protocol::*};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};

use crate::soon;

struct Raw {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Raw {
    async fn connected(limits: ClientLimits) -> (Self, Client) {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (reader, writer) = split(ours);
        let mut raw = Self { lines: BufReader::new(reader).lines(), writer };
        let (reader, writer) = split(theirs);
        let connecting = Client::builder().limits(limits).connect(Endpoint::lines(reader, writer));
        let (client, ()) = tokio::join!(connecting, async {
            assert_eq!(raw.next().await["method"], "initialize");
            raw.write(b"{\"id\":0,\"result\":{\"userAgent\":\"x\"}}\n").await;
            assert_eq!(raw.next().await["method"], "initialized");
        });
        (raw, client.unwrap())
    }

    async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn write(&mut self, bytes: &[u8]) {
        soon(self.writer.write_all(bytes)).await.unwrap();
        self.writer.flush().await.unwrap();
    }
}

#[tokio::test]
async fn a_message_may_arrive_in_pieces() {
    let (mut raw, client) = Raw::connected(ClientLimits::default()).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    raw.next().await;
    for piece in [&b"{\"id\":1,\"res"[..], b"ult\":{\"da", b"ta\":[],\"nextCursor\":", b"\"c\"}", b"}\n"] {
        raw.write(piece).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(soon(call).await.unwrap().unwrap().next_cursor.as_deref(), Some("c"));
}

#[tokio::test]
async fn a_message_may_be_very_long() {
    let (mut raw, client) = Raw::connected(ClientLimits::default()).await;
    let call = tokio::spawn(
        client.call::<FsReadFile>(FsReadFileParams { path: AbsolutePathBuf::new("/file").unwrap() }),
    );
    let request = raw.next().await;
    let text = "x".repeat(20 << 20);
    let answer = json!({ "id": request["id"], "result": { "dataBase64": text } }).to_string();
    raw.write(answer.as_bytes()).await;
    raw.write(b"\n").await;
    assert_eq!(soon(call).await.unwrap().unwrap().data_base64.len(), 20 << 20);
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    let (mut raw, client) =
        Raw::connected(ClientLimits { message_bytes: 1000, ..ClientLimits::default() }).await;
    let mut events = client.events();
    raw.write(b"Starting up...\n\n{\"half\":\n[1,2]\n{\"id\":77,\"result\":{}}\n{}\n\"text\"\nnull\n").await;
    raw.write(b"\xff\xfe not UTF-8\n").await;
    raw.write("z".repeat(5000).as_bytes()).await;
    raw.write(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"skills/changed\",\"params\":{},\"extra\":1}\r\n").await;
    let event = soon(events.next()).await.unwrap();
    assert!(matches!(event, ClientEvent::Notification(ServerNotification::SkillsChanged(_))), "{event:?}");
    assert!(client.is_connected());
}

#[tokio::test]
async fn responses_may_arrive_in_any_order_and_with_string_ids() {
    let (mut raw, client) = Raw::connected(ClientLimits::default()).await;
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(client.call::<ModelList>(Default::default()))).collect();
    for _ in 0..5 {
        raw.next().await;
    }
    for id in [3, 1, 5, 4, 2] {
        let id = if id % 2 == 0 { json!(id) } else { json!(id.to_string()) };
        let answer = json!({ "id": id, "result": { "data": [], "nextCursor": id.to_string() } });
        raw.write(format!("{answer}\n").as_bytes()).await;
    }
    for (at, call) in calls.into_iter().enumerate() {
        let cursor = soon(call).await.unwrap().unwrap().next_cursor.unwrap();
        assert_eq!(cursor.trim_matches('"'), (at + 1).to_string());
    }
}

#[tokio::test]
async fn an_error_without_a_code_resolves_the_call() {
    let (mut raw, client) = Raw::connected(ClientLimits::default()).await;
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    raw.next().await;
    raw.write(b"{\"id\":1,\"error\":{\"message\":\"odd\"}}\n").await;
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.response_error().unwrap().message, "odd");
}

#[tokio::test]
async fn a_last_line_without_a_newline_is_read() {
    let (mut raw, client) = Raw::connected(ClientLimits::default()).await;
    let mut events = client.events();
    raw.write(b"{\"method\":\"skills/changed\"}").await;
    drop(raw);
    let event = soon(events.next()).await.unwrap();
    assert!(matches!(event, ClientEvent::Notification(ServerNotification::SkillsChanged(_))), "{event:?}");
    assert_eq!(soon(events.next()).await, None);
}
