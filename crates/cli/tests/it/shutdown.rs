//! The process ends on a signal and when its client or parent is gone: successfully, and in time.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use codicil_protocol::{ItemCompleted, TurnStatus};
use codicil_testkit::{App, Script, ServerProcess, TestTransport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::soon;

const HELLO: &[u8] =
    b"{\"id\":0,\"method\":\"initialize\",\"params\":{\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n";

async fn idle_server() -> (ServerProcess, tokio::process::ChildStdin, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let stdout = process.take_stdout();
    stdin.write_all(HELLO).await.unwrap();
    let mut answer = String::new();
    soon(BufReader::new(stdout).read_line(&mut answer)).await.unwrap();
    assert!(answer.starts_with(r#"{"id":0,"result""#), "{answer}");
    (process, stdin, home)
}

#[tokio::test]
async fn the_end_of_input_ends_the_server() {
    let (mut process, stdin, _home) = idle_server().await;
    drop(stdin);
    process.expect_success().await;
}

#[tokio::test]
async fn input_that_is_closed_at_once_ends_the_server() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    drop(process.take_stdin());
    process.expect_success().await;
}

#[tokio::test]
async fn signals_end_the_server() {
    for signal in [ServerProcess::terminate, ServerProcess::interrupt] {
        let (mut process, _stdin, _home) = idle_server().await;
        signal(&process);
        process.expect_success().await;
    }
}

#[tokio::test]
async fn signals_end_a_server_whose_output_is_blocked() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn(home.path(), ["app-server"]);
    let mut stdin = process.take_stdin();
    let _unread = process.take_stdout();
    stdin.write_all(HELLO).await.unwrap();
    // More answers than a pipe holds.
    let requests = b"{\"id\":1,\"method\":\"no/such/method\"}\n".repeat(2000);
    stdin.write_all(&requests).await.unwrap();
    let start = Instant::now();
    process.terminate();
    process.expect_success().await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_exit_of_its_parent_ends_the_server() {
    let home = tempfile::tempdir().unwrap();
    // The shell is the parent; standard input stays open, held by this test.
    let script = "exec 3<&0; \"$0\" app-server <&3 & wait";
    let mut shell = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_codicil")])
        .env("CODICIL_HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = tokio::process::ChildStdin::from_std(shell.stdin.take().unwrap()).unwrap();
    let stdout = tokio::process::ChildStdout::from_std(shell.stdout.take().unwrap()).unwrap();
    let mut stdout = BufReader::new(stdout);
    stdin.write_all(HELLO).await.unwrap();
    let mut answer = String::new();
    soon(stdout.read_line(&mut answer)).await.unwrap();

    shell.kill().unwrap();
    shell.wait().unwrap();

    let mut rest = String::new();
    soon(stdout.read_to_string(&mut rest)).await.expect("it ends, and so does its output");
    drop(stdin);
}

#[tokio::test]
async fn a_running_turn_does_not_delay_the_end() {
    for by_signal in [false, true] {
        let script = Script::new().say("part").then().say("never").hang();
        let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
        app.ignore_rest();
        let thread = app.start_thread().await;
        app.run_turn(&thread, "first").await;
        app.start_turn(&thread, "second").await;
        app.until_where::<ItemCompleted>(|completed| format!("{:?}", completed.item).contains("second"))
            .await;

        let start = Instant::now();
        if by_signal {
            app.process().terminate();
        } else {
            app.disconnect();
        }
        app.process().expect_success().await;
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());

        let stored = app.restart().await.read(&thread).await;
        let statuses: Vec<_> = stored.turns.iter().map(|turn| turn.status.clone()).collect();
        assert_eq!(statuses, [TurnStatus::Completed, TurnStatus::Interrupted]);
        app.ignore_rest();
    }
}

#[tokio::test]
async fn websocket_clients_are_disconnected() {
    let mut app = App::builder().over(TestTransport::WebSocket).start().await;
    let mut other = app.another_client().await;
    app.process().terminate();
    app.process().expect_success().await;
    app.ended().await;
    other.ended().await;
}
