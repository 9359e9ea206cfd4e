//! Commands in a terminal.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::{CommandExecOutputDelta, CommandExecResize};
use codicil_testkit::TestClient;
use serde_json::{Value, from_value, json};

use super::{app, close, refusal, shell, start, terminate, write};

/// Reads deltas into `shown` until it contains a text.
async fn until_shown(client: &mut TestClient, shown: &mut String, text: &str) {
    while !shown.contains(text) {
        let delta = client.until::<CommandExecOutputDelta>().await;
        assert_eq!(delta.stream, codicil_protocol::CommandExecOutputStream::Stdout);
        shown.push_str(std::str::from_utf8(&STANDARD.decode(&delta.delta_base64).unwrap()).unwrap());
    }
}

async fn resize(client: &mut TestClient, rows: u16, cols: u16) -> Result<(), String> {
    let params = json!({ "processId": "t", "size": { "rows": rows, "cols": cols } });
    super::error_text(client.try_call::<CommandExecResize>(from_value(params).unwrap()).await)
}

fn terminal(line: &str, more: Value) -> Value {
    super::with(shell(line, json!({ "processId": "t", "tty": true })), more)
}

#[tokio::test]
async fn a_terminal_can_be_resized() {
    let mut app = app().await;
    let line = "stty size; read x; stty size; echo got $x >&2";
    let size = json!({ "size": { "rows": 31, "cols": 97 } });
    let command = start(&mut app, terminal(line, size)).await;
    let mut shown = String::new();
    until_shown(&mut app, &mut shown, "31 97").await;
    resize(&mut app, 45, 132).await.unwrap();
    let zero = "-32602 command/exec size rows and cols must be greater than 0";
    assert_eq!(resize(&mut app, 0, 0).await.unwrap_err(), zero);
    write(&mut app, "t", "word\n").await.unwrap();
    until_shown(&mut app, &mut shown, "got word").await;
    assert!(shown.contains("45 132"), "{shown}");
    let answer = app.answer(command).await.unwrap();
    assert_eq!((answer.exit_code, &*answer.stdout, &*answer.stderr), (0, "", ""));
    app.rest().await;
}

#[tokio::test]
async fn a_resize_can_directly_follow_the_command() {
    let mut app = app().await;
    let command = start(&mut app, terminal("read x; stty size", json!({}))).await;
    let params = json!({ "processId": "t", "size": { "rows": 12, "cols": 34 } });
    let resize = app.send::<CommandExecResize>(from_value(params).unwrap()).await;
    app.answer(resize).await.unwrap();
    write(&mut app, "t", "\n").await.unwrap();
    until_shown(&mut app, &mut String::new(), "12 34").await;
    app.answer(command).await.unwrap();
    app.rest().await;
}

#[tokio::test]
async fn closing_the_input_sends_end_of_file() {
    let mut app = app().await;
    let command = start(&mut app, terminal("cat; echo over", json!({}))).await;
    let mut shown = String::new();
    write(&mut app, "t", "half a line").await.unwrap();
    close(&mut app, "t").await.unwrap();
    until_shown(&mut app, &mut shown, "over").await;
    assert_eq!(app.answer(command).await.unwrap().exit_code, 0);
    app.rest().await;
}

#[tokio::test]
async fn a_terminal_is_terminated_and_interrupted() {
    let mut app = app().await;
    let command = start(&mut app, terminal("echo up; sleep 1000", json!({}))).await;
    until_shown(&mut app, &mut String::new(), "up").await;
    terminate(&mut app, "t").await.unwrap();
    assert_eq!(app.answer(command).await.unwrap().exit_code, 137);
    app.rest().await;

    let line = "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.05; done";
    let command = start(&mut app, terminal(line, json!({}))).await;
    let mut shown = String::new();
    until_shown(&mut app, &mut shown, "up").await;
    write(&mut app, "t", "\u{3}").await.unwrap();
    until_shown(&mut app, &mut shown, "caught").await;
    assert_eq!(app.answer(command).await.unwrap().exit_code, 5);
    app.rest().await;
}

#[tokio::test]
async fn only_a_terminal_can_be_resized() {
    let mut app = app().await;
    let command = start(&mut app, shell("sleep 1000", json!({ "processId": "t" }))).await;
    let params = json!({ "processId": "t", "size": { "rows": 5, "cols": 5 } });
    let refused = refusal(&mut app, "command/exec/resize", params).await;
    assert_eq!(refused, "-32600 failed to resize PTY: process is not attached to a PTY");
    terminate(&mut app, "t").await.unwrap();
    app.answer(command).await.unwrap();
}
