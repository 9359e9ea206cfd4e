//! Standard input and output: one message per line, and lines that are not messages.

use codicil_protocol::rpc::RequestId;
use codicil_testkit::{App, ServerProcess, TestTransport};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::soon;

async fn started() -> App {
    App::builder().experimental().over(TestTransport::Stdio).start().await
}

async fn still_answers(app: &mut App) {
    let answer = app.exchange(json!({ "id": "alive", "method": "thread/loaded/list" })).await;
    assert_eq!(answer, json!({ "id": "alive", "result": { "data": [], "nextCursor": null } }));
}

#[tokio::test]
async fn invalid_lines_are_skipped_and_logged() {
    let mut app = started().await;
    let lines: [&'static [u8]; 8] =
        [b"\xff\xfe\xc3", b"{", b"", b"\r", b"[]", b"\0", b"{\"id\":1,\"method\":\"\xff\"}", b"not json"];
    for line in lines {
        app.send_raw(line).await;
    }
    app.send_raw("[".repeat(100_000)).await;
    still_answers(&mut app).await;
    app.process().stderr_line("skipped a message that is not UTF-8").await;
    app.process().stderr_line("skipped a message: not a JSON-RPC message").await;
}

#[tokio::test]
async fn windows_line_endings_are_accepted() {
    let mut app = started().await;
    app.send_raw("{\"method\":\"initialized\"}\r").await;
    let message = "{\"id\":1,\"method\":\"thread/loaded/list\"}\r";
    let answer = app.exchange_raw(RequestId::Integer(1), message).await;
    assert!(answer.get("result").is_some());
}

#[tokio::test]
async fn a_line_of_a_hundred_megabytes_is_skipped_without_being_buffered() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let mut stdout = process.take_stdout();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        stdin.write_all(&part).await.unwrap();
    }
    stdin.write_all(b"\n{\"id\":1,\"method\":\"thread/loaded/list\"}\n").await.unwrap();
    let mut answer = [0; 26];
    soon(stdout.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, br#"{"error":{"code":-32600,"m"#);
    process.stderr_line("skipped a line of more than 64 MiB").await;
    let peak = process.peak_kib() >> 10;
    assert!(peak < 200, "peak of {peak} MiB");
    drop(stdin);
    process.expect_success().await;
}

#[tokio::test]
async fn a_large_message_is_answered() {
    let mut app = started().await;
    let value = "é\"".repeat(1 << 20);
    let request = json!({ "id": 1, "method": "mock/experimentalMethod", "params": { "value": value } });
    assert_eq!(app.exchange(request).await["result"]["echoed"], value);
}

#[tokio::test]
async fn standard_output_has_only_protocol_messages() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn_with(home.path(), ["app-server"], |command| {
        command.env("RUST_LOG", "trace").env("LOG_FORMAT", "json");
    });
    let mut stdin = process.take_stdin();
    let mut stdout = process.take_stdout();
    let hello = r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}"#;
    let refused = r#"{"id":2,"method":"thread/read","params":{"threadId":"no"}}"#;
    let requests = ["not json", hello, r#"{"id":1,"method":"thread/start"}"#, refused];
    stdin.write_all(format!("{}\n", requests.join("\n")).as_bytes()).await.unwrap();
    drop(stdin);
    let mut output = String::new();
    soon(stdout.read_to_string(&mut output)).await.unwrap();
    process.expect_success().await;

    let messages: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(messages.len() >= 3, "{output}");
    assert!(messages.iter().all(|message| message.get("id").is_some() || message.get("method").is_some()));
    let log = process.whole_stderr().await;
    assert!(log.lines().count() > 1, "{log}");
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(entry["level"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn a_response_that_is_too_long_is_an_error() {
    let mut app = started().await;
    let value = "x".repeat(50 << 20);
    let request = format!(r#"{{"id":1,"method":"mock/experimentalMethod","params":{{"value":"{value}"}}}}"#);
    let answer = app.exchange_raw(RequestId::Integer(1), request).await;
    assert_eq!(answer["error"]["code"], -32603);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the response is too long to send: 524"), "{message}");
    assert!(message.ends_with(" bytes, at most 50331648"), "{message}");
    still_answers(&mut app).await;
}

/// The reader is ahead of the server: a message after `initialize` must not be subject to the limit before
/// it.
#[tokio::test]
async fn a_long_message_may_follow_initialize_immediately() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let mut stdout = process.take_stdout();
    let hello = json!({ "clientInfo": { "name": "x", "version": "1" } });
    let hello = json!({ "id": 0, "method": "initialize", "params": hello });
    let padding = " ".repeat(3 << 20);
    let long = |id: u32| format!("{{\"id\":{id},{padding}\"method\":\"thread/loaded/list\"}}");
    let lines = format!("{}\n{hello}\n{}\n", long(1), long(2));
    soon(stdin.write_all(lines.as_bytes())).await.unwrap();
    drop(stdin);
    let mut answers = String::new();
    soon(stdout.read_to_string(&mut answers)).await.unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = answers.iter().filter(|answer| answer.get("result").is_some()).collect();
    assert_eq!(ids.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [0, 2], "{answers:?}");
    process.stderr_line("skipped a message of more than 1 MiB").await;
    process.expect_success().await;
}
