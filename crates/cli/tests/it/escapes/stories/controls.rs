//! Legitimate work that takes several steps.

use serde_json::json;

use super::{Stage, is_wanted};
use crate::escapes::{
    lines::workspace_write,
    server::ToolCall,
    ways::{exec, shell, shell_tools},
};

fn typed(chars: &str) -> ToolCall {
    ToolCall::Function(
        "write_stdin",
        json!({ "session_id": "{session}", "chars": chars, "yield_time_ms": 30_000 }),
    )
}

pub async fn make_all(stage: &mut Stage<'_>) {
    let open = |line: &str| exec(line, None, json!({ "tty": true, "yield_time_ms": 250 }));
    let calls: [(&str, Vec<ToolCall>, &str); 7] = [
        ("control-exit-code", vec![exec("exit 7", None, json!({}))], "exited with code 7"),
        ("control-own-signal", vec![exec("kill -TERM $$", None, json!({}))], "exited with code 143"),
        (
            "control-typing",
            vec![open("read line; echo got:$line"), typed("hello\n"), ToolCall::AwaitSession],
            "got:hello",
        ),
        (
            "control-interrupt-key",
            vec![open("sleep 1000"), typed("\u{3}"), ToolCall::AwaitSession],
            "exited with code 130",
        ),
        ("control-long-output", vec![exec("seq 30000", None, json!({}))], "\n30000"),
        (
            "control-background",
            vec![
                exec("sleep 0.5; echo la''te", None, json!({ "yield_time_ms": 250 })),
                ToolCall::AwaitSession,
            ],
            "late",
        ),
        (
            "control-relative-workdir",
            vec![exec("echo x > ../made && cat ../made", Some("sub".to_owned()), json!({}))],
            "exited with code 0",
        ),
    ];
    for (name, calls, expected) in calls.into_iter().filter(|(name, ..)| is_wanted(name)) {
        let run = stage.scene.run();
        let mut thread = stage.server.start_thread(&run.work, workspace_write(), json!({})).await;
        let output = stage.server.turn(&mut thread, calls).await.concat();
        stage.report.control(name, "exec_command", output.contains(expected), output);
    }
    if is_wanted("control-time-out") {
        let run = stage.scene.run();
        let mut thread = stage.server.start_thread(&run.work, workspace_write(), shell_tools()).await;
        let ToolCall::Function(name, mut arguments) = shell("sleep 1000", None) else { unreachable!() };
        arguments["timeout_ms"] = 300.into();
        let output = stage.server.turn(&mut thread, vec![ToolCall::Function(name, arguments)]).await.concat();
        stage.report.control("control-time-out", "shell_command", output.contains("timed out"), output);
    }
    if is_wanted("control-shell-command-of-person") {
        // By the protocol, a command of the user has no sandbox.
        let run = stage.scene.run();
        let thread = stage.server.start_thread(&run.work, workspace_write(), json!({})).await;
        let line = format!("echo x > {}", run.outside("made"));
        stage.server.result("thread/shellCommand", json!({ "threadId": thread.id, "command": line })).await;
        stage.server.end_of_turn(&thread.id).await;
        let made = run.outside.join("made").exists();
        stage.report.control("control-shell-command-of-person", "thread/shellCommand", made, "");
    }
}
