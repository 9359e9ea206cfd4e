//! Commands with streamed output.

use std::ops::ControlFlow;

use bytes::Bytes;
use codicil_protocol::{CommandExec, CommandExecOutputDelta, NotificationMethod};
use codicil_testkit::App;
use serde_json::{Value, from_value, json};

use super::{Streamed, app, exec, shell, start, streamed, terminate};

#[tokio::test]
async fn all_output_arrives_before_the_response() {
    let mut app = app().await;
    let seen = streamed(&mut app, shell("echo one; echo two >&2; echo three; exit 2", json!({}))).await;
    assert_eq!((&*seen.stdout, &*seen.stderr), (&b"one\nthree\n"[..], &b"two\n"[..]));
    assert_eq!(seen.answer["result"]["exitCode"], 2);
    assert!(seen.capped.is_empty());

    let seen = streamed(&mut app, shell("printf '\\000\\377\\303'; exit", json!({}))).await;
    assert_eq!(seen.stdout, b"\0\xff\xc3");
}

#[tokio::test]
async fn the_chunk_that_reaches_the_cap_is_the_last() {
    let mut app = app().await;
    let line = "printf 0123456789; printf ab >&2; sleep 0.1; printf 0123456789; printf cd >&2";
    let seen = streamed(&mut app, shell(line, json!({ "outputBytesCap": 4 }))).await;
    assert_eq!((&*seen.stdout, &*seen.stderr), (&b"0123"[..], &b"abcd"[..]));
    assert_eq!(seen.capped, ["stdout", "stderr"]);
    assert_eq!(seen.answer["result"]["exitCode"], 0);

    // The default cap applies to streams too, and dropped output does not slow the command down.
    let seen = streamed(&mut app, shell("head -c 3000000 /dev/zero", json!({}))).await;
    assert_eq!((seen.stdout.len(), seen.capped), (1 << 20, vec!["stdout".to_owned()]));
}

#[tokio::test]
async fn a_long_stream_arrives_completely_in_large_chunks() {
    let mut app = app().await;
    let more = json!({ "disableOutputCap": true, "disableTimeout": true });
    let line = "i=0; while [ $i -lt 64 ]; do head -c 131072 /dev/zero | tr '\\0' \"$(printf '\\%o' $i)\"; i=$((i+1)); done";
    let seen = streamed(&mut app, shell(line, more)).await;
    let expected: Vec<u8> = (0..64_u8).flat_map(|byte| vec![byte; 131_072]).collect();
    assert!(seen.stdout == expected, "{} bytes arrived", seen.stdout.len());
    assert!(seen.deltas <= 2048, "{} notifications", seen.deltas);
}

#[tokio::test]
async fn a_streaming_command_times_out() {
    let mut app = app().await;
    let seen = streamed(&mut app, shell("echo before; sleep 1000", json!({ "timeoutMs": 300 }))).await;
    assert_eq!((&*seen.stdout, &seen.answer["result"]["exitCode"]), (&b"before\n"[..], &json!(124)));
}

#[tokio::test]
async fn a_client_can_opt_out_of_output_deltas() {
    let mut app = App::builder().opt_out([CommandExecOutputDelta::NAME]).start().await;
    let params = shell("echo one", json!({ "processId": "p", "streamStdoutStderr": true }));
    let answer = exec(&mut app, params).await;
    assert_eq!((answer.exit_code, &*answer.stdout), (0, ""));
    assert_eq!(app.rest().await, "");
}

/// The pipe of the command is full, and the request that ends it is not refused.
#[tokio::test]
async fn a_flood_of_unread_output_can_be_terminated() {
    let mut app = app().await;
    let more = json!({ "processId": "s", "streamStdoutStderr": true, "disableOutputCap": true,
        "disableTimeout": true });
    let flood = start(&mut app, shell("yes", more)).await;
    app.until::<CommandExecOutputDelta>().await;
    // Other requests of this connection are served meanwhile.
    for _ in 0..20 {
        assert_eq!(exec(&mut app, shell("true", json!({}))).await.exit_code, 0);
    }
    terminate(&mut app, "s").await.unwrap();
    assert_eq!(app.answer(flood).await.unwrap().exit_code, 137);
    app.rest().await;
}

#[tokio::test]
async fn concurrent_streams_do_not_mix() {
    let mut app = app().await;
    let messages = (0..20).map(|number| {
        let line = format!("for i in $(seq 200); do echo {number}-$i; echo {number}e$i >&2; done");
        let params = shell(&line, json!({ "processId": number.to_string(), "streamStdoutStderr": true }));
        let message = json!({ "id": number, "method": "command/exec", "params": params });
        Bytes::from(message.to_string())
    });
    let mut seen: Vec<Streamed> = (0..20).map(|_| Streamed::default()).collect();
    let mut ended = 0;
    app.flood(messages, |message: Value| {
        let of = message["params"]["processId"].as_str().and_then(|id| id.parse().ok());
        let number: usize = of.or(message["id"].as_u64().map(|id| id as usize)).unwrap();
        assert!(seen[number].answer.is_null(), "no message follows the response");
        ended += usize::from(seen[number].take(message).is_break());
        if ended == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;
    for (number, seen) in seen.iter().enumerate() {
        let lines = |mark: &str| (1..=200).map(|i| format!("{number}{mark}{i}\n")).collect::<String>();
        assert_eq!(String::from_utf8_lossy(&seen.stdout), lines("-"));
        assert_eq!(String::from_utf8_lossy(&seen.stderr), lines("e"));
    }
}

#[tokio::test]
async fn a_connection_runs_a_limited_number_of_commands() {
    let mut app = app().await;
    let mut running = Vec::new();
    for number in 0..96 {
        let params = shell("sleep 1000", json!({ "processId": number.to_string(), "disableTimeout": true }));
        running.push(start(&mut app, params).await);
    }
    let one_more = app.try_call::<CommandExec>(from_value(shell("true", json!({}))).unwrap()).await;
    let refused = one_more.unwrap_err();
    assert_eq!((refused.code, &*refused.message), (-32001, "Server overloaded; retry later."));
    for number in 0..96 {
        terminate(&mut app, &number.to_string()).await.unwrap();
    }
    for command in running {
        assert_eq!(app.answer(command).await.unwrap().exit_code, 137);
    }
    assert_eq!(exec(&mut app, shell("true", json!({}))).await.exit_code, 0);
}
