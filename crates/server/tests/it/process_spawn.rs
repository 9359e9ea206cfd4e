//! `process/*`: processes of the client that end with a notification.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::{
    ProcessExited, ProcessExitedNotification, ProcessOutputDelta, ProcessOutputDeltaNotification,
};
use codicil_testkit::App;
use serde_json::{Value, json};

async fn app() -> App {
    App::builder().experimental().start().await
}

async fn request(app: &mut App, method: &str, params: Value) -> Result<Value, String> {
    let answer = app.exchange(json!({ "id": method, "method": method, "params": params })).await;
    match answer.get("error") {
        Some(error) => Err(format!("{} {}", error["code"], error["message"].as_str().unwrap())),
        None => Ok(answer["result"].clone()),
    }
}

/// Makes params of a shell line, with more members.
fn shell(app: &App, handle: &str, line: &str, more: Value) -> Value {
    let mut params =
        json!({ "command": ["sh", "-c", line], "cwd": app.workspace(), "processHandle": handle });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

async fn spawn(app: &mut App, handle: &str, line: &str, more: Value) {
    let params = shell(app, handle, line, more);
    assert_eq!(request(app, "process/spawn", params).await, Ok(json!({})));
}

async fn exited(app: &mut App, handle: &str) -> ProcessExitedNotification {
    app.until_where::<ProcessExited>(|exited| exited.process_handle == handle).await
}

async fn write(app: &mut App, handle: &str, text: &str) -> Result<Value, String> {
    let params = json!({ "processHandle": handle, "deltaBase64": STANDARD.encode(text) });
    request(app, "process/writeStdin", params).await
}

fn text(delta: &ProcessOutputDeltaNotification) -> String {
    String::from_utf8(STANDARD.decode(&delta.delta_base64).unwrap()).unwrap()
}

#[tokio::test]
async fn the_end_of_a_process_is_a_notification_with_its_output() {
    let mut app = app().await;
    spawn(&mut app, "p", "echo out; echo err >&2; exit 3", json!({})).await;
    let end = exited(&mut app, "p").await;
    assert_eq!((end.exit_code, end.stdout.as_str(), end.stderr.as_str()), (3, "out\n", "err\n"));
    assert_eq!((end.stdout_cap_reached, end.stderr_cap_reached), (false, false));
    assert_eq!(end.output_drain_timed_out, Some(false));
    app.rest().await;
}

#[tokio::test]
async fn a_handle_is_free_when_its_process_has_exited() {
    let mut app = app().await;
    for _ in 0..20 {
        spawn(&mut app, "same", "true", json!({})).await;
        exited(&mut app, "same").await;
    }
    app.rest().await;
}

#[tokio::test]
async fn output_is_streamed_and_cut_at_its_cap() {
    let mut app = app().await;
    let more = json!({ "streamStdoutStderr": true, "outputBytesCap": 4 });
    spawn(&mut app, "s", "printf 0123456789", more).await;
    let delta = app.until::<ProcessOutputDelta>().await;
    assert_eq!((text(&delta).as_str(), delta.cap_reached), ("0123", true));
    let end = exited(&mut app, "s").await;
    assert_eq!((end.exit_code, end.stdout.as_str(), end.stdout_cap_reached), (0, "", true));

    spawn(&mut app, "kept", "printf 0123; printf x >&2", json!({ "outputBytesCap": 4 })).await;
    let end = exited(&mut app, "kept").await;
    assert_eq!((end.stdout.as_str(), end.stdout_cap_reached), ("0123", true));
    assert_eq!((end.stderr.as_str(), end.stderr_cap_reached), ("x", false));
    app.rest().await;
}

#[tokio::test]
async fn input_is_written_and_closed() {
    let mut app = app().await;
    spawn(&mut app, "cat", "cat", json!({ "streamStdin": true })).await;
    let again = shell(&app, "cat", "true", json!({}));
    let error = request(&mut app, "process/spawn", again).await.unwrap_err();
    assert_eq!(error, "-32600 duplicate active process handle: \"cat\"");
    assert_eq!(write(&mut app, "cat", "typed\n").await, Ok(json!({})));
    let close = json!({ "processHandle": "cat", "closeStdin": true });
    assert_eq!(request(&mut app, "process/writeStdin", close).await, Ok(json!({})));
    assert_eq!(exited(&mut app, "cat").await.stdout, "typed\n");
    app.rest().await;
}

#[tokio::test]
async fn a_process_in_a_terminal_is_typed_into_and_resized() {
    let mut app = app().await;
    spawn(&mut app, "t", "read line; stty size; echo got $line", json!({ "tty": true })).await;
    let size = json!({ "processHandle": "t", "size": { "rows": 11, "cols": 22 } });
    assert_eq!(request(&mut app, "process/resizePty", size).await, Ok(json!({})));
    assert_eq!(write(&mut app, "t", "hi\n").await, Ok(json!({})));
    let mut output = String::new();
    while !output.contains("got hi") {
        output += &text(&app.until::<ProcessOutputDelta>().await);
    }
    assert!(output.contains("11 22"), "{output}");
    assert_eq!(exited(&mut app, "t").await.exit_code, 0);
    app.rest().await;
}

#[tokio::test]
async fn a_process_is_killed_or_runs_out_of_time() {
    let mut app = app().await;
    spawn(&mut app, "k", "sleep 30", json!({})).await;
    assert_eq!(request(&mut app, "process/kill", json!({ "processHandle": "k" })).await, Ok(json!({})));
    assert_eq!(exited(&mut app, "k").await.exit_code, 137);
    let error = request(&mut app, "process/kill", json!({ "processHandle": "k" })).await.unwrap_err();
    assert_eq!(error, "-32600 no active process for process handle \"k\"");
    spawn(&mut app, "late", "sleep 30", json!({ "timeoutMs": 50 })).await;
    assert_eq!(exited(&mut app, "late").await.exit_code, 124);
    app.rest().await;
}

#[tokio::test]
async fn a_kill_right_behind_its_spawn_finds_the_process() {
    let mut app = app().await;
    for handle in ["a", "b", "c"] {
        let params = shell(&app, handle, "sleep 30", json!({}));
        let spawn = json!({ "id": handle, "method": "process/spawn", "params": params });
        app.send_raw(spawn.to_string()).await;
        let killed = request(&mut app, "process/kill", json!({ "processHandle": handle })).await;
        assert_eq!(killed, Ok(json!({})));
        assert_eq!(exited(&mut app, handle).await.exit_code, 137);
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_process_runs_outside_the_sandbox_with_its_own_environment() {
    let mut app = app().await;
    let outside = tempfile::tempdir().unwrap();
    let more = json!({ "env": { "GREETING": "hello", "HOME": null } });
    let line = format!("touch {}/made && echo $GREETING-${{HOME:-none}}", outside.path().display());
    spawn(&mut app, "w", &line, more).await;
    let end = exited(&mut app, "w").await;
    assert_eq!((end.exit_code, end.stdout.as_str()), (0, "hello-none\n"));
    assert!(outside.path().join("made").exists());
    app.rest().await;
}

#[tokio::test]
async fn contradicting_params_are_refused_with_the_methods_own_texts() {
    let mut app = app().await;
    let cwd = json!(app.workspace());
    let cases = [
        (json!({ "command": [], "processHandle": "x", "cwd": cwd }), "-32600 command must not be empty"),
        (
            json!({ "command": ["true"], "processHandle": "", "cwd": cwd }),
            "-32600 processHandle must not be empty",
        ),
        (shell(&app, "x", "true", json!({ "timeoutMs": -1 })), {
            "-32602 process/spawn timeoutMs must be non-negative, got -1"
        }),
        (shell(&app, "x", "true", json!({ "size": { "rows": 1, "cols": 1 } })), {
            "-32602 process/spawn size requires tty: true"
        }),
        (shell(&app, "x", "true", json!({ "tty": true, "size": { "rows": 0, "cols": 1 } })), {
            "-32602 process size rows and cols must be greater than 0"
        }),
        (
            json!({ "command": ["/no/such/program"], "processHandle": "x", "cwd": cwd }),
            "-32603 failed to spawn process: No such file or directory (os error 2)",
        ),
    ];
    for (params, expected) in cases {
        let error = request(&mut app, "process/spawn", params.clone()).await.unwrap_err();
        assert_eq!(error, expected, "{params}");
    }
    spawn(&mut app, "deaf", "sleep 30", json!({})).await;
    let error = write(&mut app, "deaf", "x").await.unwrap_err();
    assert_eq!(error, "-32600 stdin streaming is not enabled for this process");
    let size = json!({ "processHandle": "deaf", "size": { "rows": 1, "cols": 1 } });
    let error = request(&mut app, "process/resizePty", size).await.unwrap_err();
    assert_eq!(error, "-32600 failed to resize PTY: process is not attached to a PTY");
    let error =
        request(&mut app, "process/writeStdin", json!({ "processHandle": "deaf" })).await.unwrap_err();
    assert_eq!(error, "-32602 process/writeStdin requires deltaBase64 or closeStdin");
    app.ignore_rest();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_end_with_their_connection() {
    let mut app = app().await;
    let mark = format!("process-spawn-{}", std::process::id());
    let more = json!({ "env": { "COMMAND_MARK": mark }, "timeoutMs": null });
    spawn(&mut app, "long", "sleep 300 & sleep 300", more).await;
    app.disconnect();
    crate::processes::until_none_is_marked(&mark).await;
}

#[tokio::test]
async fn output_that_no_message_can_hold_is_cut_and_the_end_is_still_reported() {
    let mut app = app().await;
    let line = "head -c 40000000 /dev/zero";
    spawn(&mut app, "flood", line, json!({ "outputBytesCap": null, "timeoutMs": null })).await;
    let end = exited(&mut app, "flood").await;
    assert_eq!((end.exit_code, end.stdout_cap_reached), (0, true));
    assert_eq!(end.stdout.len(), 3 << 19);
    app.rest().await;
}
