//! Floods of requests: every request is answered, and memory is bounded.

use std::collections::HashSet;

use codicil_testkit::ServerProcess;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::soon;

const COUNT: usize = 20_000;
const LARGE_COUNT: usize = 30;

#[tokio::test]
async fn twenty_thousand_unread_requests_are_all_answered() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let stdout = process.take_stdout();
    let mut answers = BufReader::new(stdout).lines();
    let hello = r#"{"id":"hello","method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}"#;
    stdin.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    soon(answers.next_line()).await.unwrap().unwrap();
    let before = process.resident_kib();

    let requests =
        (0..COUNT).map(|id| format!("{{\"id\":{id},\"method\":\"thread/loaded/list\",\"params\":{{}}}}\n"));
    soon(stdin.write_all(requests.collect::<String>().as_bytes())).await.unwrap();

    let mut seen = HashSet::new();
    let mut refused = 0;
    while seen.len() < COUNT {
        let answer: Value = serde_json::from_str(&soon(answers.next_line()).await.unwrap().unwrap()).unwrap();
        assert!(seen.insert(answer["id"].as_i64().unwrap()), "answered twice: {answer}");
        if answer.get("result").is_none() {
            refused += 1;
            assert_eq!(answer["error"]["code"], -32001, "{answer}");
            assert_eq!(answer["error"]["message"], "Server overloaded; retry later.");
        }
    }
    let grown = process.peak_kib().saturating_sub(before) >> 10;
    assert!(grown <= 20, "{grown} MiB more, with {refused} refused");

    stdin.write_all(b"{\"id\":\"after\",\"method\":\"thread/loaded/list\"}\n").await.unwrap();
    let after = soon(answers.next_line()).await.unwrap().unwrap();
    assert_eq!(after, r#"{"id":"after","result":{"data":[],"nextCursor":null}}"#);
    drop(stdin);
    process.expect_success().await;
}

/// With large answers, the server refuses requests, then stops reading, and continues when its output is read
/// again.
#[tokio::test]
async fn unread_large_answers_block_only_their_client() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let stdout = process.take_stdout();
    let mut answers = BufReader::new(stdout).lines();
    let hello = r#"{"id":-1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"},
        "capabilities":{"experimentalApi":true}}}"#;
    stdin.write_all(format!("{}\n", hello.replace('\n', "")).as_bytes()).await.unwrap();
    soon(answers.next_line()).await.unwrap().unwrap();

    let value = "x".repeat(700 << 10);
    let writing = tokio::spawn(async move {
        for id in 0..LARGE_COUNT {
            let line = format!(
                "{{\"id\":{id},\"method\":\"mock/experimentalMethod\",\"params\":{{\"value\":\"{value}\"}}}}\n"
            );
            stdin.write_all(line.as_bytes()).await.unwrap();
        }
        stdin
    });
    let mut outcomes = [0, 0];
    for id in 0..LARGE_COUNT {
        let answer: Value = serde_json::from_str(&soon(answers.next_line()).await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id, "in order");
        match answer.get("result") {
            Some(result) => assert_eq!(result["echoed"].as_str().unwrap().len(), 700 << 10),
            None => assert_eq!(answer["error"]["code"], -32001),
        }
        outcomes[usize::from(answer.get("result").is_none())] += 1;
    }
    assert!(outcomes[0] > 0, "some were served: {outcomes:?}");
    drop(writing.await.unwrap());
    process.expect_success().await;
}
