//! `command/exec/write`.

use codicil_protocol::CommandExecOutputDelta;
use serde_json::{from_value, json};

use super::{app, close, exec, refusal, shell, start, terminate, with, write};

#[tokio::test]
async fn a_command_reads_its_input_until_it_is_closed() {
    let mut app = app().await;
    let params = shell("cat; echo done", json!({ "processId": "p", "streamStdin": true }));
    let cat = start(&mut app, params).await;
    write(&mut app, "p", "one\n").await.unwrap();
    write(&mut app, "p", "").await.unwrap();
    let last = json!({ "processId": "p", "deltaBase64": "dHdvCg==", "closeStdin": true });
    app.call::<codicil_protocol::CommandExecWrite>(from_value(last).unwrap()).await;
    let answer = app.answer(cat).await.unwrap();
    assert_eq!((answer.exit_code, &*answer.stdout), (0, "one\ntwo\ndone\n"));
    let gone = "-32600 no active command/exec for process id \"p\"";
    assert_eq!(write(&mut app, "p", "late").await.unwrap_err(), gone);
}

#[tokio::test]
async fn a_write_can_directly_follow_the_command() {
    let mut app = app().await;
    for round in 0..100 {
        let params = shell("cat", json!({ "processId": "p", "streamStdin": true }));
        let cat = start(&mut app, params).await;
        let write = |text: &str, end| {
            let delta = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
            from_value(json!({ "processId": "p", "deltaBase64": delta, "closeStdin": end })).unwrap()
        };
        let first = app.send::<codicil_protocol::CommandExecWrite>(write("first ", false)).await;
        let second = app.send::<codicil_protocol::CommandExecWrite>(write("second", true)).await;
        app.answer(first).await.unwrap();
        app.answer(second).await.unwrap();
        assert_eq!(app.answer(cat).await.unwrap().stdout, "first second", "round {round}");
    }
}

#[tokio::test]
async fn writing_to_closed_or_missing_input_is_refused() {
    let mut app = app().await;
    let deaf = start(&mut app, shell("sleep 1000", json!({ "processId": "deaf" }))).await;
    let not_open = "-32600 stdin streaming is not enabled for this command/exec";
    assert_eq!(write(&mut app, "deaf", "x").await.unwrap_err(), not_open);
    assert_eq!(close(&mut app, "deaf").await.unwrap_err(), not_open);
    terminate(&mut app, "deaf").await.unwrap();
    app.answer(deaf).await.unwrap();

    let params = shell("cat; sleep 1000", json!({ "processId": "closed", "streamStdin": true }));
    let closed = start(&mut app, params).await;
    close(&mut app, "closed").await.unwrap();
    let over = "-32600 stdin is already closed";
    assert_eq!(write(&mut app, "closed", "x").await.unwrap_err(), over);
    assert_eq!(close(&mut app, "closed").await.unwrap_err(), over);
    terminate(&mut app, "closed").await.unwrap();
    app.answer(closed).await.unwrap();
}

#[tokio::test]
async fn a_command_that_does_not_read_does_not_block_requests() {
    let mut app = app().await;
    let params = shell(
        "echo up; sleep 1000",
        json!({ "processId": "p", "streamStdin": true,
        "streamStdoutStderr": true }),
    );
    let sleep = start(&mut app, params).await;
    app.until::<CommandExecOutputDelta>().await;
    // More than a pipe holds, which is queued.
    write(&mut app, "p", &"x".repeat(2 << 20)).await.unwrap();
    let params = json!({ "processId": "p", "deltaBase64": "eHg=" });
    let waits = app.send::<codicil_protocol::CommandExecWrite>(from_value(params).unwrap()).await;
    terminate(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(waits).await.unwrap_err().message, "stdin is already closed");
    assert_eq!(app.answer(sleep).await.unwrap().exit_code, 137);
    app.rest().await;
}

#[tokio::test]
async fn large_input_arrives_completely() {
    let mut app = app().await;
    let params = shell("cksum; wc -c", json!({ "processId": "p", "streamStdin": true }));
    let text: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    let expected = {
        std::fs::write(app.workspace().join("text"), &text).unwrap();
        exec(&mut app, shell("cksum < text", json!({}))).await.stdout
    };
    let sum = start(&mut app, params).await;
    for piece in text.as_bytes().chunks(100_000) {
        write(&mut app, "p", std::str::from_utf8(piece).unwrap()).await.unwrap();
    }
    close(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(sum).await.unwrap().stdout, format!("{expected}0\n"));
}

#[tokio::test]
async fn process_ids_belong_to_a_connection_and_can_be_reused() {
    let mut app = app().await;
    let mut other = app.another_client().await;
    let params = shell("cat", json!({ "processId": "p", "streamStdin": true, "disableTimeout": true }));
    let mine = start(&mut app, params.clone()).await;
    let duplicate = refusal(&mut app, "command/exec", params.clone()).await;
    assert_eq!(duplicate, "-32600 duplicate active command/exec process id: \"p\"");
    let gone = "-32600 no active command/exec for process id \"p\"";
    assert_eq!(terminate(&mut other, "p").await.unwrap_err(), gone);

    let theirs = start(&mut other, params.clone()).await;
    write(&mut other, "p", "the process of the other client").await.unwrap();
    close(&mut other, "p").await.unwrap();
    assert_eq!(other.answer(theirs).await.unwrap().stdout, "the process of the other client");
    close(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(mine).await.unwrap().stdout, "");

    // A command that could not be started frees its id.
    let missing = with(params.clone(), json!({ "command": ["/no/such/program"] }));
    assert!(refusal(&mut app, "command/exec", missing).await.starts_with("-32603 failed to spawn"));
    let again = start(&mut app, params).await;
    close(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(again).await.unwrap().exit_code, 0);
}
