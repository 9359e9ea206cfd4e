//! Commands with their output in the response, and invalid requests.

use serde_json::json;

use super::{app, exec, refusal, shell};
use crate::command_exec::NO_SANDBOX;

#[tokio::test]
async fn the_response_holds_both_streams_and_the_exit_code() {
    let mut app = app().await;
    let check = async |app: &mut codicil_testkit::App, line: &str, code: i32, stdout: &str, stderr: &str| {
        let answer = exec(app, shell(line, json!({}))).await;
        assert_eq!((answer.exit_code, &*answer.stdout, &*answer.stderr), (code, stdout, stderr), "{line}");
    };
    check(&mut app, "echo out; echo err >&2; exit 3", 3, "out\n", "err\n").await;
    check(&mut app, "printf 'a\\377b\\303'", 0, "a\u{fffd}b\u{fffd}", "").await;
    check(&mut app, "kill -TERM $$", 143, "", "").await;
    check(&mut app, "cat", 0, "", "").await;
    // A background process neither delays the response for long nor stays.
    check(&mut app, "sleep 1000 & echo done", 0, "done\n", "").await;
}

#[tokio::test]
async fn a_command_runs_in_the_requested_directory() {
    let mut app = app().await;
    let workspace = app.workspace().to_owned();
    std::fs::create_dir(workspace.join("sub")).unwrap();
    let check = async |app: &mut codicil_testkit::App, more, expected: &std::path::Path| {
        let answer = exec(app, shell("pwd", more)).await;
        assert_eq!(answer.stdout.trim_end(), expected.to_str().unwrap());
    };
    check(&mut app, json!({}), &workspace).await;
    check(&mut app, json!({ "cwd": "" }), &workspace).await;
    check(&mut app, json!({ "cwd": "sub" }), &workspace.join("sub")).await;
    check(&mut app, json!({ "cwd": "/usr" }), "/usr".as_ref()).await;
}

#[tokio::test]
async fn the_environment_of_the_server_can_be_changed() {
    // Cargo sets this variable for the test process, which the server runs in.
    let line = "echo ${CARGO_PKG_NAME-unset} ${MINE-unset} ${PATH:+path}";
    let mut app = app().await;
    let check = async |app: &mut codicil_testkit::App, env, expected: &str| {
        let answer = exec(app, shell(line, json!({ "env": env }))).await;
        assert_eq!(answer.stdout.trim_end(), expected);
    };
    check(&mut app, json!({}), "codicil-server unset path").await;
    check(&mut app, json!({ "MINE": "new", "CARGO_PKG_NAME": "other" }), "other new path").await;
    check(&mut app, json!({ "CARGO_PKG_NAME": null }), "unset unset path").await;

    let policy = "[shell_environment_policy]\nexclude = [\"CARGO_*\"]\nset = { MINE = \"set\" }";
    let mut app = codicil_testkit::App::builder().config(policy).start().await;
    check(&mut app, json!({}), "unset set path").await;
    check(&mut app, json!({ "CARGO_PKG_NAME": "back", "MINE": null }), "back unset path").await;
}

#[tokio::test]
async fn the_cap_applies_to_each_stream() {
    let mut app = app().await;
    let line = "printf 0123456789; printf abcdefghij >&2";
    let check = async |app: &mut codicil_testkit::App, more, stdout: &str, stderr: &str| {
        let answer = exec(app, shell(line, more)).await;
        assert_eq!((answer.exit_code, &*answer.stdout, &*answer.stderr), (0, stdout, stderr));
    };
    check(&mut app, json!({ "outputBytesCap": 4 }), "0123", "abcd").await;
    check(&mut app, json!({ "outputBytesCap": 0 }), "", "").await;
    check(&mut app, json!({ "outputBytesCap": u64::MAX }), "0123456789", "abcdefghij").await;
    check(&mut app, json!({ "disableOutputCap": true }), "0123456789", "abcdefghij").await;

    let long = shell("head -c 3000000 /dev/zero | tr '\\0' x", json!({}));
    assert_eq!(exec(&mut app, long.clone()).await.stdout.len(), 1 << 20);
    let all = super::with(long, json!({ "disableOutputCap": true }));
    assert_eq!(exec(&mut app, all).await.stdout.len(), 3_000_000);
}

#[tokio::test]
async fn a_command_times_out() {
    let mut app = app().await;
    let answer = exec(&mut app, shell("echo before; sleep 1000", json!({ "timeoutMs": 300 }))).await;
    assert_eq!((answer.exit_code, &*answer.stdout), (124, "before\n"));
    let answer = exec(&mut app, shell("echo hi", json!({ "disableTimeout": true }))).await;
    assert_eq!((answer.exit_code, &*answer.stdout), (0, "hi\n"));
    let answer = exec(&mut app, shell("sleep 1000", json!({ "timeoutMs": 0 }))).await;
    assert_eq!(answer.exit_code, 124);
    let answer = exec(&mut app, shell("echo hi", json!({ "timeoutMs": i64::MAX }))).await;
    assert_eq!((answer.exit_code, &*answer.stdout), (0, "hi\n"));
}

#[tokio::test]
async fn invalid_requests_get_the_errors_of_the_reference() {
    let mut app = app().await;
    let exec = "command/exec";
    let write = "command/exec/write";
    let resize = "command/exec/resize";
    let terminate = "command/exec/terminate";
    let size = |rows: u16, cols: u16| json!({ "rows": rows, "cols": cols });
    let no_id = "-32600 command/exec tty or streaming requires a client-supplied processId";
    let zero = "-32602 command/exec size rows and cols must be greater than 0";
    let missing = "-32603 failed to spawn command: No such file or directory (os error 2)";
    let gone = "-32600 no active command/exec for process id \"no \\\"such\\\"\"";
    let full = json!({ "type": NO_SANDBOX });
    for (method, params, expected) in [
        (exec, json!({ "command": [] }), "-32600 command must not be empty"),
        (exec, json!({ "command": ["true"], "tty": true }), no_id),
        (exec, json!({ "command": ["true"], "streamStdin": true }), no_id),
        (exec, json!({ "command": ["true"], "streamStdoutStderr": true }), no_id),
        (
            exec,
            json!({ "command": ["true"], "processId": "p", "size": size(2, 2) }),
            "-32602 command/exec size requires tty: true",
        ),
        (exec, json!({ "command": ["true"], "processId": "p", "tty": true, "size": size(0, 5) }), zero),
        (
            exec,
            json!({ "command": ["true"], "outputBytesCap": 1, "disableOutputCap": true }),
            "-32602 command/exec cannot set both outputBytesCap and disableOutputCap",
        ),
        (
            exec,
            json!({ "command": ["true"], "timeoutMs": 1, "disableTimeout": true }),
            "-32602 command/exec cannot set both timeoutMs and disableTimeout",
        ),
        (
            exec,
            json!({ "command": ["true"], "timeoutMs": -1 }),
            "-32602 command/exec timeoutMs must be non-negative, got -1",
        ),
        (exec, json!({ "command": ["/no/such/program"], "sandboxPolicy": full }), missing),
        (exec, json!({ "command": ["true"], "sandboxPolicy": full, "cwd": "/no/such/place" }), missing),
        (write, json!({ "processId": "no \"such\"", "deltaBase64": "eA==" }), gone),
        (write, json!({ "processId": "x" }), {
            "-32602 command/exec/write requires deltaBase64 or closeStdin"
        }),
        (write, json!({ "processId": "x", "closeStdin": false }), {
            "-32602 command/exec/write requires deltaBase64 or closeStdin"
        }),
        (write, json!({ "processId": "x", "deltaBase64": "***" }), {
            "-32602 invalid deltaBase64: Invalid symbol 42, offset 0."
        }),
        (resize, json!({ "processId": "no \"such\"", "size": size(2, 2) }), gone),
        (resize, json!({ "processId": "x", "size": size(2, 0) }), zero),
        (terminate, json!({ "processId": "no \"such\"" }), gone),
    ] {
        assert_eq!(refusal(&mut app, method, params.clone()).await, expected, "{method} {params}");
    }
}
